"""AlterConfigs 0-2: replace all settings of topics or brokers (KIP-133; deprecated by KIP-339).

What is not named goes back to its default. Topics must exist; a broker is this one by its number,
or all brokers by the empty name. Each resource takes all of its changes or none. Wrong settings are
INVALID_CONFIG for a topic and INVALID_REQUEST for a broker, as in Kafka; so is a broker setting
that is only read at start. Changes are effective when the answer is sent. Not here: client metrics
and groups as resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...metadata.decision import Refusal
from ...metadata.setting_changes import SettingRules, Wish, replacing_wish
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..config_resources import alter_resources

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace what can be replaced."""
    del context
    results = await alter_resources(
        broker, request.resources, _wish, validate_only=request.validate_only
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, refusal in zip(request.resources, results, strict=True)
        ]
    )


def _wish(
    present: Mapping[str, str], resource: AlterConfigsResource, rules: SettingRules
) -> Wish | Refusal:
    del rules
    return replacing_wish(present, [(one.name, one.value) for one in resource.configs])
