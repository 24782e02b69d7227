"""AlterConfigs 0-2: replace all settings of resources (KIP-133; deprecated by KIP-339).

Settings that are not in the request return to their defaults. Topics must exist; a broker is named
by its id, or all brokers by the empty name. Groups and client metrics subscriptions (KIP-848,
KIP-714) need not exist. Each resource takes all of its changes or none. As in
Kafka, invalid settings are INVALID_REQUEST for a broker and else INVALID_CONFIG; so is a
broker setting that is only read at start. Changes are effective when the answer is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...metadata.decision import Refusal
from ...metadata.setting_changes import NewValues, SettingRules, replacing_values
from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_configs
from ..system.pace import paced
from .config_resources import alter_resources

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: alter_configs.Request
) -> alter_configs.Response:
    del context
    results = await alter_resources(
        broker, request.resources, _new_values, validate_only=request.validate_only
    )
    return alter_configs.Response(
        responses=[
            alter_configs.ResourceResponse(
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            async for resource, refusal in paced(
                zip(request.resources, results, strict=True), broker.clock.monotonic
            )
        ]
    )


def _new_values(
    present: Mapping[str, str], resource: alter_configs.Resource, rules: SettingRules
) -> NewValues | Refusal:
    del rules
    return replacing_values(present, [(one.name, one.value) for one in resource.configs])
