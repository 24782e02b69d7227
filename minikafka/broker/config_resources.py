"""Config resources: what DescribeConfigs and the two AlterConfigs name, and who answers for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..metadata.controller import topic_name_problem
from ..metadata.decision import Decision, Refusal
from ..metadata.records import MetadataRecord
from ..metadata.setting_changes import (
    Resource,
    SettingRules,
    Wish,
    alter_settings,
    check_dynamic,
)
from ..metadata.setting_effects import settle_partitions
from ..metadata.topic_settings import TOPIC_SETTINGS, check_topic_settings
from ..protocol.errors import ErrorCode
from .change_error import ChangeError
from .config import BROKER_SETTINGS

if TYPE_CHECKING:
    from .broker import Broker

RESOURCES_PER_REQUEST_MAX = 10_000
"""Resources that one request may alter or describe."""


class ResourceType(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_RULES = {
    ResourceType.TOPIC: SettingRules(
        TOPIC_SETTINGS, check_topic_settings, ErrorCode.INVALID_CONFIG
    ),
    ResourceType.BROKER: SettingRules(
        BROKER_SETTINGS, partial(check_dynamic, BROKER_SETTINGS), ErrorCode.INVALID_REQUEST
    ),
}


class NamedResource(Protocol):
    """A resource of one of the three requests."""

    resource_type: int
    resource_name: str


_Named = TypeVar("_Named", bound=NamedResource)
MakeWish = Callable[[Mapping[str, str], _Named, SettingRules], Wish | Refusal]


async def alter_resources(
    broker: Broker,
    resources: Sequence[_Named],
    make_wish: MakeWish[_Named],
    *,
    validate_only: bool,
) -> list[Refusal | None]:
    """Alter topics and brokers, each on its own; one result for each resource, in order."""
    times = Counter((one.resource_type, one.resource_name) for one in resources)

    def decide_one(one: _Named) -> Decision[Refusal | None]:
        if times[one.resource_type, one.resource_name] > 1:
            message = "Each resource must appear at most once."
            return Decision([], Refusal(ErrorCode.INVALID_REQUEST, message))
        problem = resource_problem(broker, one)
        if problem is not None:
            return Decision([], problem)
        rules = _RULES[ResourceType(one.resource_type)]
        resource = Resource(one.resource_type, one.resource_name)
        wish = make_wish(broker.image.settings.get(resource, {}), one, rules)
        if isinstance(wish, Refusal):
            return Decision([], wish)
        return alter_settings(broker.image, resource, wish, rules)

    def decide() -> Decision[list[Refusal | None]]:
        decisions = [decide_one(one) for one in resources[:RESOURCES_PER_REQUEST_MAX]]
        records: list[MetadataRecord] = []
        if not validate_only:
            records = [record for decision in decisions for record in decision.records]
            records += settle_partitions(broker.image, records, broker.replication_rules())
        return Decision(records, [decision.result for decision in decisions])

    try:
        results = await broker.change(decide)
    except ChangeError as error:
        return [Refusal(ErrorCode(error.error_code), str(error))] * len(resources)
    return results + [too_many()] * (len(resources) - len(results))


def resource_problem(broker: Broker, resource: NamedResource) -> Refusal | None:
    """Why a topic's or broker's settings cannot be changed, whatever the settings."""
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            if not name:
                return Refusal(
                    ErrorCode.INVALID_REQUEST, "There are no settings of all topics; name one."
                )
            return topic_problem(broker, name)
        case ResourceType.BROKER:
            return broker_problem(broker, name) if name else None
        case other:
            return unsupported_type(other)


def topic_problem(broker: Broker, name: str) -> Refusal | None:
    """Why there is no topic of that name, or None when there is."""
    problem = topic_name_problem(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in broker.image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return None


def node_problem(broker: Broker, name: str) -> Refusal | None:
    """Why a resource name is not this broker's number, or None when it is."""
    if name == str(broker.node_id):
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected broker id {name[:100]!r}; this broker is {broker.node_id}.",
    )


def broker_problem(broker: Broker, name: str) -> Refusal | None:
    """Why a resource name is no registered broker's number, or None when it is."""
    if any(name == str(number) for number in broker.image.brokers):
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected broker id {name[:100]!r}; no such broker is registered.",
    )


def unsupported_type(resource_type: int) -> Refusal:
    """The answer for a resource type that this broker does not have."""
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Config resource type {resource_type} is not supported; topics (2), brokers (4) and, not "
        "in AlterConfigs, broker loggers (8) are.",
    )


def too_many() -> Refusal:
    """The answer for resources that are past the limit."""
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"A request may name {RESOURCES_PER_REQUEST_MAX} resources; use several requests.",
    )
