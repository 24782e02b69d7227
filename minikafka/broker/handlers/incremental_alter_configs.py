"""IncrementalAlterConfigs 0-1: change some settings of resources (KIP-339).

SET and DELETE work on every setting, APPEND and SUBTRACT on lists. Topics must exist; a broker is
named by its id, or all brokers by the empty name. Groups and client metrics subscriptions (KIP-848,
KIP-714) need not exist. Each resource takes all of its changes or none.
As in Kafka, invalid settings are INVALID_REQUEST for a broker and else INVALID_CONFIG; so is
a broker setting that is only read at start. Changes are effective on this broker when the answer is
sent, and on others a little later. Log levels (KIP-412) belong to this broker, which need not be
the controller, and last until it stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...metadata.decision import Refusal
from ...metadata.setting_changes import NewValues, SettingChange, SettingRules, incremental_values
from ...protocol.errors import ErrorCode
from ...protocol.messages import incremental_alter_configs
from ..quorum.change_error import ChangeError
from ..settings.log_levels import change_log_levels
from ..system.pace import Pace
from .config_resources import ResourceType, alter_resources, node_problem

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: incremental_alter_configs.Request
) -> incremental_alter_configs.Response:
    pace = Pace(broker.clock.monotonic)
    loggers: list[incremental_alter_configs.Resource] = []
    others: list[incremental_alter_configs.Resource] = []
    async for one in pace.each(request.resources):
        (loggers if one.resource_type == ResourceType.BROKER_LOGGER else others).append(one)
    answers: list[incremental_alter_configs.ResourceResponse] = []
    if others:
        rest = incremental_alter_configs.Request(
            resources=others, validate_only=request.validate_only
        )
        answers += await _alter(broker, context, rest)
    async for one in pace.each(loggers):
        problem = node_problem(broker, one.resource_name)
        if len(loggers) > 1:
            problem = Refusal(ErrorCode.INVALID_REQUEST, "The broker's loggers are named twice.")
        if problem is None:
            problem = change_log_levels(_changes(one), validate_only=request.validate_only)
        answers.append(_answer(one, problem))
    return incremental_alter_configs.Response(responses=answers)


async def _alter(
    broker: Broker, context: RequestContext, request: incremental_alter_configs.Request
) -> list[incremental_alter_configs.ResourceResponse]:
    """Alter topics and brokers, on the active controller."""
    resources = request.resources
    results: list[Refusal | None]
    try:
        if not broker.controller.is_active:
            response = await broker.forwarder.request(request, context.api_version)
            assert isinstance(response, incremental_alter_configs.Response)
            return response.responses
    except ChangeError as error:
        results = [Refusal(error.error_code, error.message)] * len(resources)
    else:
        results = await alter_resources(
            broker, resources, _new_values, validate_only=request.validate_only
        )
    return await Pace(broker.clock.monotonic).every(
        _answer(one, refusal) for one, refusal in zip(resources, results, strict=True)
    )


def _changes(resource: incremental_alter_configs.Resource) -> list[SettingChange]:
    return [SettingChange(one.name, one.config_operation, one.value) for one in resource.configs]


def _new_values(
    present: Mapping[str, str], resource: incremental_alter_configs.Resource, rules: SettingRules
) -> NewValues | Refusal:
    return incremental_values(present, _changes(resource), rules)


def _answer(
    resource: incremental_alter_configs.Resource, refusal: Refusal | None
) -> incremental_alter_configs.ResourceResponse:
    return incremental_alter_configs.ResourceResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
