"""Decisions about settings of topics and brokers (AlterConfigs; IncrementalAlterConfigs, KIP-339).

The two requests become one thing here, a *wish*: setting names with their new text, or None to take
the setting back to its default. A wish is checked together with what is set already, and a resource
takes the whole wish or nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .decision import Decision, Refusal
from .image import MetadataImage
from .records import MetadataRecord, SettingRecord
from .settings import (
    InvalidSettingError,
    Setting,
    SettingType,
    parse_setting,
    render_setting,
    unknown_setting,
)

__all__ = [
    "Operation",
    "Resource",
    "SettingChange",
    "SettingRules",
    "alter_settings",
    "check_dynamic",
    "incremental_wish",
    "replacing_wish",
]

Wish = Mapping[str, str | None]


class Operation(IntEnum):
    """What IncrementalAlterConfigs may do to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class SettingChange(NamedTuple):
    """One change of IncrementalAlterConfigs; ``operation`` is the number from the wire."""

    name: str
    operation: int
    value: str | None


class Resource(NamedTuple):
    """Whose settings: Kafka's number of the resource type, and the name."""

    resource_type: int
    name: str


class SettingRules(NamedTuple):
    """What a kind of resource allows.

    Attributes:
        table: its settings by name.
        check: raises InvalidSettingError when texts cannot be set together.
        refusal_code: what Kafka answers then: INVALID_CONFIG for topics, INVALID_REQUEST for
            brokers (KAFKA-13609).
    """

    table: Mapping[str, Setting]
    check: Callable[[Mapping[str, str]], None]
    refusal_code: ErrorCode


def replacing_wish(
    present: Mapping[str, str], wanted: Sequence[tuple[str, str | None]]
) -> Wish | Refusal:
    """AlterConfigs: what is not named goes back to its default."""
    refusal = _request_problem([name for name, _ in wanted], dict(wanted))
    return refusal or {**dict.fromkeys(present), **dict(wanted)}


def incremental_wish(
    present: Mapping[str, str], changes: Sequence[SettingChange], rules: SettingRules
) -> Wish | Refusal:
    """IncrementalAlterConfigs: only what is named changes.

    A list that is not set is appended to, or subtracted from, as its default, as in Kafka.
    """
    updates = {one.name: one.value for one in changes if one.operation != Operation.DELETE}
    refusal = _request_problem([one.name for one in changes], updates)
    if refusal is not None:
        return refusal
    wish: dict[str, str | None] = {}
    for name, operation, value in changes:
        match operation:
            case Operation.SET:
                wish[name] = value
            case Operation.DELETE:
                wish[name] = None
            case Operation.APPEND | Operation.SUBTRACT:
                setting = rules.table.get(name)
                if setting is None or setting.kind is not SettingType.LIST:
                    verb = Operation(operation).name
                    return Refusal(
                        ErrorCode.INVALID_CONFIG,
                        f"Can't {verb} to {name[:100]}: it is not a setting of type LIST.",
                    )
                before = present.get(name, render_setting(setting.default))
                wish[name] = _combine(before, value or "", is_append=operation == Operation.APPEND)
            case _:
                return Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"Unknown operation {operation} on {name[:100]}; use 0 (SET), 1 (DELETE), "
                    "2 (APPEND) or 3 (SUBTRACT).",
                )
    return wish


def _request_problem(names: Sequence[str], updates: Wish) -> Refusal | None:
    """What the request itself has wrong, whatever the resource."""
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
    image: MetadataImage, resource: Resource, wish: Wish, rules: SettingRules
) -> Decision[Refusal | None]:
    """Change the settings of a resource that exists.

    Returns:
        Why nothing changes, or None.
    """
    present = image.settings.get(resource, {})
    merged: dict[str, str | None] = {**present, **wish}
    after = {name: value for name, value in merged.items() if value is not None}
    try:
        rules.check(after)
    except InvalidSettingError as error:
        return Decision([], Refusal(rules.refusal_code, str(error)))
    records: list[MetadataRecord] = [
        SettingRecord(*resource, name, value)
        for name, value in wish.items()
        if present.get(name) != value
    ]
    return Decision(records, None)


def check_dynamic(table: Mapping[str, Setting], texts: Mapping[str, str]) -> None:
    """Check settings that shall change while the broker runs.

    Raises:
        InvalidSettingError: a name is unknown or fixed at start, or a value is impossible.
    """
    for name, text in texts.items():
        setting = table.get(name)
        if setting is None:
            raise unknown_setting(name, table)
        if not setting.is_dynamic:
            raise InvalidSettingError(
                f"Cannot update {name} dynamically: it is read when the broker starts"
            )
        parse_setting(setting, text)
