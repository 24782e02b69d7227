"""What a setting is: its type, bounds and text, and how a value is parsed and rendered.

The settings themselves are declared in `minikafka.metadata.setting_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from math import isfinite
from typing import NamedTuple

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "VALUE_LENGTH_MAX",
    "InvalidSettingError",
    "Password",
    "Setting",
    "SettingType",
    "Value",
    "parse_setting",
    "render_setting",
    "unknown_setting",
]


class Password:
    """The value of a setting that holds a secret; no text that shows it contains the secret."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret itself, for what has to use it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return HIDDEN


HIDDEN = "[hidden]"
"""What is shown in place of a secret, as in Kafka."""

Value = bool | int | float | str | tuple[str, ...] | Password

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
VALUE_LENGTH_MAX = 32_767
"""Most characters of a setting's text: what a string holds in older versions of the protocol."""

_SHOWN_CHARACTERS = 100


class SettingType(IntEnum):
    """Types as DescribeConfigs numbers them (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class InvalidSettingError(ValueError):
    """An unknown setting, or a value that it does not accept."""


class Setting(NamedTuple):
    """One setting.

    Attributes:
        name: Kafka's name, with dots.
        kind: its type on the wire and in text.
        default: the value when it is not set.
        doc: what it does, in a sentence; units are in the name.
        at_least: smallest number allowed.
        at_most: largest number allowed.
        choices: the only texts allowed (for a list: the only members; for a number: the only ones).
        broker_name: for a topic setting, the broker setting that gives its default.
        is_dynamic: whether it can change while the broker runs.
        is_ignored: it is accepted and stored for Kafka's sake, and has no effect.
    """

    name: str
    kind: SettingType
    default: Value
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    broker_name: str | None = None
    is_dynamic: bool = False
    is_ignored: bool = False


_BOUNDS = {
    SettingType.INT: (-(2**31), INT_MAX),
    SettingType.SHORT: (-(2**15), 2**15 - 1),
    SettingType.LONG: (-(2**63), LONG_MAX),
}


def parse_setting(setting: Setting, text: str) -> Value:
    """Parse a value.

    Raises:
        InvalidSettingError: the text is not of the setting's type, or outside its bounds.
    """
    if len(text) > VALUE_LENGTH_MAX:
        raise _invalid(setting, text, f"may have {VALUE_LENGTH_MAX} characters, not {len(text)}")
    text = text.strip()
    match setting.kind:
        case SettingType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise _invalid(setting, text, "must be true or false")
            return text.lower() == "true"
        case SettingType.LIST:
            return _parse_list(setting, text)
        case SettingType.PASSWORD:
            return Password(text)
        case SettingType.STRING:
            if setting.choices and text not in setting.choices:
                raise _invalid(setting, text, f"must be one of {', '.join(setting.choices)}")
            return text
        case _:
            return _parse_number(setting, text)


def _parse_list(setting: Setting, text: str) -> tuple[str, ...]:
    members = tuple(part.strip() for part in text.split(",") if part.strip())
    if setting.choices and not set(setting.choices).issuperset(members):
        raise _invalid(setting, text, f"may hold only {', '.join(setting.choices)}")
    return members


def _parse_number(setting: Setting, text: str) -> int | float:
    number: int | float
    try:
        # Python's own grammar is wider than a configuration file's: 1_000, ٣, inf.
        if "_" in text or not text.isascii():
            raise ValueError
        number = float(text) if setting.kind is SettingType.DOUBLE else int(text)
        if not isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        kind = setting.kind.name.lower()
        raise _invalid(setting, text, f"must be a number of type {kind}") from None
    low, high = _BOUNDS.get(setting.kind, (float("-inf"), float("inf")))
    low = low if setting.at_least is None else setting.at_least
    high = high if setting.at_most is None else setting.at_most
    if setting.choices and str(number) not in setting.choices:
        raise _invalid(setting, text, f"must be one of {', '.join(setting.choices)}")
    if not low <= number <= high:
        raise _invalid(setting, text, f"must be between {low} and {high}")
    return number


def _invalid(setting: Setting, text: str, rule: str) -> InvalidSettingError:
    shown = repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}...")
    if setting.kind is SettingType.PASSWORD:
        shown = HIDDEN
    return InvalidSettingError(f"Invalid value {shown} for setting {setting.name}: it {rule}")


def render_setting(value: Value) -> str:
    """A value as text, in Kafka's form; a secret is not in it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def unknown_setting(name: str, known: Mapping[str, object]) -> InvalidSettingError:
    """The error for an unknown name, with the nearest known ones."""
    shown = name[:_SHOWN_CHARACTERS]
    from difflib import get_close_matches

    near = get_close_matches(shown, known, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return InvalidSettingError(f"Unknown setting {shown!r}{hint}")
