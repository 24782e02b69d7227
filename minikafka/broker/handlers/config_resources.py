"""Config resources, as DescribeConfigs, AlterConfigs and IncrementalAlterConfigs name them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...metadata.client_metrics import check_client_metrics
from ...metadata.decision import Decision, Refusal
from ...metadata.group_settings import check_group_settings
from ...metadata.records import MetadataRecord
from ...metadata.setting_changes import (
    NewValues,
    Resource,
    SettingRules,
    alter_settings,
    check_dynamic,
    settle_partitions,
)
from ...metadata.setting_table import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
)
from ...metadata.topic_settings import check_topic_settings
from ...metadata.topics import topic_name_problem
from ...protocol.errors import ErrorCode
from ..quorum.change_error import ChangeError
from ..system.pace import PIECE_ENTRIES, Pace

if TYPE_CHECKING:
    from ..broker import Broker

logger = logging.getLogger(__name__)

RESOURCES_PER_REQUEST_MAX = 10_000
"""The limit for one request."""


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_TABLES = {
    ResourceType.TOPIC: TOPIC_SETTINGS,
    ResourceType.BROKER: BROKER_SETTINGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_SETTINGS,
    ResourceType.GROUP: GROUP_SETTINGS,
}


def _rules(broker: Broker, kind: ResourceType) -> SettingRules:
    check: Callable[[Mapping[str, str]], None]
    match kind:
        case ResourceType.TOPIC:
            check = check_topic_settings
        case ResourceType.CLIENT_METRICS:
            check = check_client_metrics
        case ResourceType.GROUP:
            check = partial(check_group_settings, broker_values=broker.settings.broker_values())
        case _:
            check = partial(check_dynamic, BROKER_SETTINGS)
    is_broker = kind is ResourceType.BROKER
    code = ErrorCode.INVALID_REQUEST if is_broker else ErrorCode.INVALID_CONFIG
    return SettingRules(_TABLES[kind], check, code)


class NamedResource(Protocol):
    resource_type: int
    resource_name: str


_Named = TypeVar("_Named", bound=NamedResource)
MakeNewValues = Callable[[Mapping[str, str], _Named, SettingRules], NewValues | Refusal]


async def alter_resources(
    broker: Broker,
    resources: Sequence[_Named],
    make_values: MakeNewValues[_Named],
    *,
    validate_only: bool,
) -> list[Refusal | None]:
    """Alter resources independently; returns a result for each resource, in order."""
    pace = Pace(broker.clock.monotonic)
    repeated = await pace.repeated((one.resource_type, one.resource_name) for one in resources)
    changed: dict[Resource, NewValues] = {}

    def decide_one(one: _Named) -> Decision[Refusal | None]:
        if (one.resource_type, one.resource_name) in repeated:
            message = "Each resource must appear at most once."
            return Decision([], Refusal(ErrorCode.INVALID_REQUEST, message))
        problem = resource_problem(broker, one)
        if problem is not None:
            return Decision([], problem)
        rules = _rules(broker, ResourceType(one.resource_type))
        resource = Resource(one.resource_type, one.resource_name)
        values = make_values(broker.image.settings.get(resource, {}), one, rules)
        if isinstance(values, Refusal):
            return Decision([], values)
        changed[resource] = values
        return alter_settings(broker.image, resource, values, rules)

    def decide(piece: Sequence[_Named]) -> Decision[list[Refusal | None]]:
        decisions = [decide_one(one) for one in piece]
        records: list[MetadataRecord] = []
        if not validate_only:
            records = [record for decision in decisions for record in decision.records]
            records += settle_partitions(broker.image, records, broker.settings.replication_rules())
        return Decision(records, [decision.result for decision in decisions])

    results: list[Refusal | None] = []
    allowed = resources[:RESOURCES_PER_REQUEST_MAX]
    for start in range(0, len(allowed) or 1, PIECE_ENTRIES):
        piece = allowed[start : start + PIECE_ENTRIES]
        try:
            results += await broker.controller.change(partial(decide, piece))
        except ChangeError as error:
            results += [Refusal(ErrorCode(error.error_code), str(error))] * len(piece)
    async for one, refusal in pace.each(zip(resources, results, strict=False)):
        if refusal is None and not validate_only:
            resource = Resource(one.resource_type, one.resource_name)
            values = changed.get(resource, {})
            warn_without_effect(resource, [name for name, text in values.items() if text])
    return results + [too_many()] * (len(resources) - len(results))


def warn_without_effect(resource: Resource, names: Iterable[str]) -> None:
    """Log which of the settings that were set do nothing here."""
    kind = ResourceType(resource.resource_type)
    table = _TABLES[kind]
    for name in names:
        setting = table.get(name)
        if setting is None or setting.is_ignored:
            logger.warning(
                "%s was set on %s %r and has no effect: %s",
                *(name, kind.name.lower().replace("_", " "), resource.name),
                "this broker does not know it" if setting is None else setting.doc,
            )


def resource_problem(broker: Broker, resource: NamedResource) -> Refusal | None:
    """Why this resource cannot be altered, or None."""
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            if not name:
                return Refusal(ErrorCode.INVALID_REQUEST, "The name of the topic is missing.")
            return topic_problem(broker, name)
        case ResourceType.BROKER:
            return broker_problem(broker, name) if name else None
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            return name_problem(name)
        case other:
            return unsupported_type(other)


def name_problem(name: str) -> Refusal | None:
    """Why no group or client metrics subscription can have this name, or None if one can.

    Neither has to exist: settings may come first.
    """
    if name:
        return None
    message = "The name of the group or client metrics subscription is missing."
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def topic_problem(broker: Broker, name: str) -> Refusal | None:
    """Why the topic does not exist, or None if it does."""
    problem = topic_name_problem(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in broker.image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return None


def node_problem(broker: Broker, name: str) -> Refusal | None:
    """Why a resource name is not this broker's id, or None if it is."""
    if name == str(broker.node_id):
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected broker id {name[:100]!r}; this broker is {broker.node_id}.",
    )


def broker_problem(broker: Broker, name: str) -> Refusal | None:
    """Why a resource name is not the id of a registered broker, or None if it is."""
    if any(name == str(number) for number in broker.image.brokers):
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected broker id {name[:100]!r}; no such broker is registered.",
    )


def unsupported_type(resource_type: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Config resource type {resource_type} is not supported. Supported are topics (2), brokers "
        "(4), client metrics subscriptions (16), groups (32) and, except in AlterConfigs, broker "
        "loggers (8).",
    )


def too_many() -> Refusal:
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"A request may have at most {RESOURCES_PER_REQUEST_MAX} resources; use several requests.",
    )
