"""Decisions about settings of resources (AlterConfigs; IncrementalAlterConfigs, KIP-339).

Both requests are turned into *new values*: setting names with their new text, or None to reset the
setting to its default. New values are checked together with what is already set, and a resource
takes all of them or none.

Two settings change partitions in the same decision. When min.insync.replicas is lowered, a leader
may commit with an ISR that was too small before. From then on a replica outside that ISR may miss
committed records, so the eligible leaders are cleared (KIP-966; as in Kafka). When unclean election
is enabled, partitions without a leader get one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .client_metrics import InvalidSubscriptionError
from .decision import Decision, Refusal
from .image import MetadataImage
from .partition_change import BrokerAvailability, PartitionChanges
from .records import NO_LEADER, MetadataRecord, PartitionRecord, SettingRecord
from .replication_rules import MIN_INSYNC, UNCLEAN_ELECTION, ReplicationRules
from .setting_table import setting_of_listener
from .settings import (
    VALUE_LENGTH_MAX,
    InvalidSettingError,
    Setting,
    SettingType,
    parse_setting,
    render_setting,
)

__all__ = [
    "Operation",
    "Resource",
    "SettingChange",
    "SettingRules",
    "alter_settings",
    "check_dynamic",
    "incremental_values",
    "replacing_values",
    "settle_partitions",
]

UNKNOWN_SETTINGS_MAX = 100
"""Settings unknown here that a resource may have."""
UNKNOWN_NAME_LENGTH_MAX = 249
NewValues = Mapping[str, str | None]


class Operation(IntEnum):
    """What IncrementalAlterConfigs can do to a setting, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class SettingChange(NamedTuple):
    """One change of IncrementalAlterConfigs; ``operation`` as on the wire."""

    name: str
    operation: int
    value: str | None


class Resource(NamedTuple):
    """Kafka's number of the resource type, and the resource's name."""

    resource_type: int
    name: str


class SettingRules(NamedTuple):
    """What is allowed for a type of resource.

    Attributes:
        table: its settings by name.
        check: raises InvalidSettingError when texts cannot be set together.
        refusal_code: the error code in that case: INVALID_REQUEST for brokers (KAFKA-13609), else
            INVALID_CONFIG.
    """

    table: Mapping[str, Setting]
    check: Callable[[Mapping[str, str]], None]
    refusal_code: ErrorCode


def replacing_values(
    present: Mapping[str, str], wanted: Sequence[tuple[str, str | None]]
) -> NewValues | Refusal:
    """AlterConfigs: settings that are not named are reset."""
    refusal = _request_problem([name for name, _ in wanted], dict(wanted))
    return refusal or {**dict.fromkeys(present), **dict(wanted)}


def incremental_values(
    present: Mapping[str, str], changes: Sequence[SettingChange], rules: SettingRules
) -> NewValues | Refusal:
    """IncrementalAlterConfigs: only the named settings change.

    APPEND and SUBTRACT on a list that is not set begin with its default, as in Kafka.
    """
    updates = {one.name: one.value for one in changes if one.operation != Operation.DELETE}
    refusal = _request_problem([one.name for one in changes], updates)
    if refusal is not None:
        return refusal
    values: dict[str, str | None] = {}
    for name, operation, value in changes:
        match operation:
            case Operation.SET:
                values[name] = value
            case Operation.DELETE:
                values[name] = None
            case Operation.APPEND | Operation.SUBTRACT:
                setting = rules.table.get(name)
                if setting is None or setting.kind is not SettingType.LIST:
                    verb = Operation(operation).name
                    return Refusal(
                        ErrorCode.INVALID_CONFIG,
                        f"Can't {verb} to {name[:100]}: it is not a setting of type LIST.",
                    )
                before = present.get(name, render_setting(setting.default))
                values[name] = _combine(
                    before, value or "", is_append=operation == Operation.APPEND
                )
            case _:
                return Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"Unknown operation {operation} on {name[:100]}; use 0 (SET), 1 (DELETE), "
                    "2 (APPEND) or 3 (SUBTRACT).",
                )
    return values


def _request_problem(names: Sequence[str], updates: NewValues) -> Refusal | None:
    """What is wrong with the request, whatever the resource."""
    repeated = next((name for name, times in Counter(names).items() if times > 1), None)
    if repeated is not None:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Setting {repeated[:100]} is named more than once."
        )
    null = next((name for name, value in updates.items() if value is None), None)
    if null is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Setting {null[:100]} has no value (null).")
    return None


def _combine(before: str, value: str, *, is_append: bool) -> str:
    members = dict.fromkeys(before.split(","))
    others = value.split(",")
    if is_append:
        members.update(dict.fromkeys(others))
    else:
        for member in others:
            members.pop(member, None)
    return ",".join(filter(None, members))


def alter_settings(
    image: MetadataImage, resource: Resource, values: NewValues, rules: SettingRules
) -> Decision[Refusal | None]:
    """Change the settings of a resource that exists.

    Returns:
        Why nothing changes, or None.
    """
    present = image.settings.get(resource, {})
    merged: dict[str, str | None] = {**present, **values}
    after = {name: value for name, value in merged.items() if value is not None}
    try:
        rules.check(after)
    except InvalidSubscriptionError as error:
        return Decision([], Refusal(ErrorCode.INVALID_REQUEST, str(error)))
    except InvalidSettingError as error:
        return Decision([], Refusal(rules.refusal_code, str(error)))
    records: list[MetadataRecord] = [
        SettingRecord(*resource, name, value)
        for name, value in values.items()
        if present.get(name) != value
    ]
    return Decision(records, None)


def check_dynamic(table: Mapping[str, Setting], texts: Mapping[str, str]) -> None:
    """Check settings that are to change while the broker runs.

    Unknown ones are stored, as in Kafka, where plug-ins may have settings of their own.

    Raises:
        InvalidSettingError: a name is fixed at start, a value is impossible, or there are too many
            unknown names.
    """
    if len(texts) > len(table) + UNKNOWN_SETTINGS_MAX:
        raise InvalidSettingError(
            f"{len(texts)} settings, of which at most {UNKNOWN_SETTINGS_MAX} may be unknown"
        )
    for name, text in texts.items():
        setting = table.get(name) or _setting_of_listener(name)
        if setting is None:
            if not 0 < len(name) <= UNKNOWN_NAME_LENGTH_MAX or len(text) > VALUE_LENGTH_MAX:
                raise InvalidSettingError(
                    f"Unknown setting {name[:100]!r}: the name may have {UNKNOWN_NAME_LENGTH_MAX} "
                    f"characters and the value {VALUE_LENGTH_MAX}"
                )
            continue
        if not setting.is_dynamic:
            raise InvalidSettingError(
                f"Cannot update {name} dynamically: it is read when the broker starts"
            )
        parse_setting(setting, text)


def _setting_of_listener(name: str) -> Setting | None:
    setting = setting_of_listener(name)
    return None if setting is None else setting._replace(name=name)


def settle_partitions(
    image: MetadataImage, records: Iterable[MetadataRecord], defaults: ReplicationRules
) -> list[PartitionRecord]:
    """The partitions that a change of settings changes; append them to the decision.

    Args:
        image: before the decision.
        records: all records of the decision.
        defaults: see `replication_rules.rules_of_topic`.
    """
    changed = [
        record
        for record in records
        if isinstance(record, SettingRecord) and record.name in (MIN_INSYNC, UNCLEAN_ELECTION)
    ]
    if not changed:
        return []
    settings = {key: dict(values) for key, values in image.settings.items()}
    for resource_type, resource_name, name, value in changed:
        of_resource = settings.setdefault((resource_type, resource_name), {})
        of_resource.pop(name, None)
        if value is not None:
            of_resource[name] = value
    changes = PartitionChanges(settings, BrokerAvailability.of(image), defaults)
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.eligible_leader_replicas or partition.leader == NO_LEADER:
                changes.change(topic, partition)
    return changes.records
