"""Client metrics subscriptions (KIP-714): which clients push which of their metrics, and how often.

A subscription is a config resource. All those that match a client apply to it together: it pushes
the metrics of all of them, at the shortest of their intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, cast

import re2

from .setting_table import CLIENT_METRICS_SETTINGS
from .settings import InvalidSettingError, Value, parse_setting, unknown_setting

__all__ = [
    "ALL_METRICS",
    "ClientDescription",
    "InvalidSubscriptionError",
    "Subscription",
    "check_client_metrics",
    "subscription_for",
]

ALL_METRICS: Final = "*"
"""What a subscription names to ask for every metric."""

_PATTERN_SIZE_BYTES_MAX: Final = 64 * 1024
"""Memory of a compiled regular expression."""


class ClientDescription(NamedTuple):
    """What subscriptions can select clients by, all as text."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    """What one client is asked for: prefixes of names, in order, and how often."""

    metrics: tuple[str, ...]
    interval_ms: int


class InvalidSubscriptionError(InvalidSettingError):
    """A setting that Kafka calls an invalid request and not an invalid setting."""


def check_client_metrics(texts: Mapping[str, str]) -> None:
    """Check what a subscription would have set.

    Raises:
        InvalidSettingError: a name is unknown or a value is invalid.
    """
    for name, text in texts.items():
        setting = CLIENT_METRICS_SETTINGS.get(name)
        if setting is None:
            raise InvalidSubscriptionError(str(unknown_setting(name, CLIENT_METRICS_SETTINGS)))
        value = parse_setting(setting._replace(at_least=None, at_most=None), text)
        if isinstance(value, int):
            try:
                parse_setting(setting, text)
            except InvalidSettingError as error:
                raise InvalidSubscriptionError(str(error)) from None
    _patterns(_value("match", texts))


def subscription_for(
    client: ClientDescription, subscriptions: Iterable[Mapping[str, str]]
) -> Subscription:
    """All subscriptions that match a client, as one; without any there are no metrics."""
    metrics: dict[str, None] = {}
    interval_ms = cast("int", CLIENT_METRICS_SETTINGS["interval.ms"].default)
    for texts in subscriptions:
        patterns = _patterns(_value("match", texts))
        if all(matches(getattr(client, name)) for name, matches in patterns.items()):
            metrics |= dict.fromkeys(cast("tuple[str, ...]", _value("metrics", texts)))
            interval_ms = min(interval_ms, cast("int", _value("interval.ms", texts)))
    asked = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics)
    return Subscription(asked, interval_ms)


def _value(name: str, texts: Mapping[str, str]) -> Value:
    setting = CLIENT_METRICS_SETTINGS[name]
    return parse_setting(setting, texts[name]) if name in texts else setting.default


def _patterns(match: Value) -> dict[str, Callable[[str], object | None]]:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_SIZE_BYTES_MAX
    patterns: dict[str, Callable[[str], object | None]] = {}
    for pair in cast("tuple[str, ...]", match):
        name, _, pattern = (part.strip() for part in pair.partition("="))
        if name not in ClientDescription._fields or not pattern:
            raise InvalidSettingError(
                f"match has {pair[:100]!r}; it takes NAME=PATTERN pairs, and the names are "
                f"{', '.join(ClientDescription._fields)}"
            )
        try:
            patterns[name] = re2.compile(pattern, options).fullmatch
        except re2.error as error:
            raise InvalidSettingError(
                f"match has {pair[:100]!r}, which is no regular expression: {error}"
            ) from None
    return patterns
