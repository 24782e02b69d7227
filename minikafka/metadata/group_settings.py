"""The settings of a group: which texts are allowed, and which values are effective.

A group may set them before it exists, so they belong to a group id (KIP-848, KIP-932, KIP-1071).
What it does not set, the broker's ``group.consumer.*``, ``group.share.*`` and ``group.streams.*``
settings say, within the bounds or not. Others of those are bounds: a group's own value outside
them is refused when it is set, and if the bounds change afterwards, the nearest allowed one is
effective.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .setting_table import BROKER_SETTINGS, GROUP_SETTINGS
from .settings import InvalidSettingError, Value, parse_setting, unknown_setting
from .topics import topic_name_problem

__all__ = ["check_group_settings", "group_value", "group_values"]

_SESSIONS: Final = tuple(
    (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
    for kind in ("consumer", "share", "streams")
)
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_OFFSET_RESET: Final = "share.auto.offset.reset"
_DURATION: Final = re.compile(
    r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.IGNORECASE
)


def _bound(name: str, which: str) -> str | None:
    """The broker setting that bounds a group setting: X.Y is bounded by group.X.min.Y."""
    kind, _, rest = name.partition(".")
    bound = f"group.{kind}.{which}.{rest.removeprefix('num.') if kind == 'streams' else rest}"
    return bound if bound in BROKER_SETTINGS else None


_BOUNDS: Final = {name: (_bound(name, "min"), _bound(name, "max")) for name in GROUP_SETTINGS}


def group_value(
    name: str, overrides: Mapping[str, str], broker_values: Mapping[str, Value]
) -> Value:
    """The effective value of one group setting.

    Args:
        name: such as ``consumer.session.timeout.ms``.
        overrides: the group's own settings, as text (`MetadataImage.group_settings`).
        broker_values: values of broker settings by Kafka name.
    """
    setting = GROUP_SETTINGS[name]
    if name not in overrides:
        return broker_values.get(setting.broker_name or "", setting.default)
    value = parse_setting(setting, overrides[name])
    at_least, at_most = _limits(name, broker_values)
    if isinstance(value, int) and at_most is not None:
        value = min(value, at_most)
    if isinstance(value, int) and at_least is not None:
        value = max(value, at_least)
    return value


def group_values(
    overrides: Mapping[str, str], broker_values: Mapping[str, Value]
) -> dict[str, Value]:
    """Every group setting with its effective value; see `group_value`."""
    return {name: group_value(name, overrides, broker_values) for name in GROUP_SETTINGS}


def check_group_settings(texts: Mapping[str, str], broker_values: Mapping[str, Value]) -> None:
    """Check what a group would have set.

    Args:
        texts: all settings of the group after the change.
        broker_values: values of broker settings by Kafka name.

    Raises:
        InvalidSettingError: a name is unknown, a value is invalid or outside the broker's bounds,
            or values contradict each other.
    """
    for name, text in texts.items():
        if name not in GROUP_SETTINGS:
            raise unknown_setting(name, GROUP_SETTINGS)
        value = parse_setting(GROUP_SETTINGS[name], text)
        at_least, at_most = _limits(name, broker_values)
        if at_least is not None and isinstance(value, int) and value < at_least:
            raise InvalidSettingError(
                f"{name} is {value}, and {_BOUNDS[name][0]} of the broker allows {at_least} or more"
            )
        if at_most is not None and isinstance(value, int) and value > at_most:
            raise InvalidSettingError(
                f"{name} is {value}, and {_BOUNDS[name][1]} of the broker allows {at_most} or less"
            )
    _check_sessions(texts, broker_values)
    reset = texts.get(_OFFSET_RESET, "latest").strip()
    if reset not in ("earliest", "latest") and not _DURATION.fullmatch(reset):
        raise InvalidSettingError(
            f"{_OFFSET_RESET} is {reset[:100]!r}; it must be earliest, latest or "
            "by_duration:PnDTnHnMn.nS, such as by_duration:PT1H"
        )
    _check_dead_letters(texts.get(_DEAD_LETTERS, "").strip())


def _limits(name: str, broker_values: Mapping[str, Value]) -> tuple[int | None, int | None]:
    low, high = (
        None if bound is None else broker_values.get(bound, BROKER_SETTINGS[bound].default)
        for bound in _BOUNDS[name]
    )
    assert isinstance(low, int | None)
    assert isinstance(high, int | None)
    return low, high


def _check_sessions(texts: Mapping[str, str], broker_values: Mapping[str, Value]) -> None:
    for session_name, heartbeat_name in _SESSIONS:
        if session_name not in texts and heartbeat_name not in texts:
            continue
        session = group_value(session_name, texts, broker_values)
        heartbeat = group_value(heartbeat_name, texts, broker_values)
        assert isinstance(session, int)
        assert isinstance(heartbeat, int)
        if session <= heartbeat:
            raise InvalidSettingError(
                f"{session_name} is {session} and {heartbeat_name} {heartbeat}: "
                "the session must be longer than the interval"
            )


def _check_dead_letters(topic: str) -> None:
    if not topic:
        return
    problem = topic_name_problem(topic)
    if problem is not None:
        raise InvalidSettingError(f"{_DEAD_LETTERS}: {problem}")
    if topic.startswith("__"):
        raise InvalidSettingError(
            f"{_DEAD_LETTERS} is {topic[:100]!r}; topics whose names begin with __ are the broker's"
        )
