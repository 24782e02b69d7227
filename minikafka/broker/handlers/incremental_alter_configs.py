"""IncrementalAlterConfigs 0-1: change some settings of topics, brokers or loggers (KIP-339).

SET and DELETE work on every setting, APPEND and SUBTRACT on lists. Topics must exist; a broker is
any registered one by its number, or all brokers by the empty name. Each resource takes all of its
changes or none. Wrong settings are INVALID_CONFIG for a topic and INVALID_REQUEST for a broker, as
in Kafka; so is a broker setting that is only read at start. Changes are effective on this broker
when the answer is sent, on others a little later. Log levels (KIP-412) are of this broker alone,
which need not be the controller, and last until it stops. Not here: client metrics and groups as
resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...metadata.decision import Refusal
from ...metadata.setting_changes import SettingChange, SettingRules, Wish, incremental_wish
from ...protocol.errors import ErrorCode
from ...protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..change_error import ChangeError
from ..config_resources import ResourceType, alter_resources, node_problem
from ..log_levels import change_log_levels

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change what can be changed."""
    loggers = [one for one in request.resources if one.resource_type == ResourceType.BROKER_LOGGER]
    others = [one for one in request.resources if one.resource_type != ResourceType.BROKER_LOGGER]
    answers: list[AlterConfigsResourceResponse] = []
    if others:
        rest = IncrementalAlterConfigsRequest(resources=others, validate_only=request.validate_only)
        answers += await _alter(broker, context, rest)
    for one in loggers:
        problem = node_problem(broker, one.resource_name)
        if len(loggers) > 1:
            problem = Refusal(ErrorCode.INVALID_REQUEST, "Name the broker's loggers only once.")
        if problem is None:
            problem = change_log_levels(_changes(one), validate_only=request.validate_only)
        answers.append(_answer(one, problem))
    return IncrementalAlterConfigsResponse(responses=answers)


async def _alter(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> list[AlterConfigsResourceResponse]:
    """Alter topics and brokers where the active controller is."""
    resources = request.resources
    results: list[Refusal | None]
    try:
        if not broker.controller.is_active:
            response = await broker.forwarder.request(request, context.api_version)
            assert isinstance(response, IncrementalAlterConfigsResponse)
            return response.responses
    except ChangeError as error:
        results = [Refusal(error.error_code, error.message)] * len(resources)
    else:
        results = await alter_resources(
            broker, resources, _wish, validate_only=request.validate_only
        )
    return [_answer(one, refusal) for one, refusal in zip(resources, results, strict=True)]


def _changes(resource: AlterConfigsResource) -> list[SettingChange]:
    return [SettingChange(one.name, one.config_operation, one.value) for one in resource.configs]


def _wish(
    present: Mapping[str, str], resource: AlterConfigsResource, rules: SettingRules
) -> Wish | Refusal:
    return incremental_wish(present, _changes(resource), rules)


def _answer(
    resource: AlterConfigsResource, refusal: Refusal | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
