"""Settings as tests write them, and as the command line takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Setting = str | bool | int | float | Sequence[str]
"""A setting's value. Booleans become ``true`` and ``false``, sequences are joined by commas."""

DEFAULTS: Final[Mapping[str, Setting]] = {
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.check.interval.ms": 86_400_000,
    "offsets.topic.num.partitions": 3,
}
"""Where a broker for tests differs from Kafka's defaults.

A new group does not wait three seconds for further members; records with timestamps of years ago do
not disappear during a test; and the first group makes three partitions, not fifty.
"""


def kafka_name(name: str) -> str:
    """``num_partitions`` and ``num.partitions`` are the same setting.

    A name with a dot is Kafka's own, which may have ``_``: ``listener.name.sasl_plaintext.x``.
    """
    return name if "." in name else name.replace("_", ".")


def setting_text(value: Setting) -> str:
    """A value as ``--set`` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    return ",".join(value)


def merged(*layers: Mapping[str, Setting]) -> list[str]:
    """``NAME=VALUE``; a later mapping overrides the ones before it."""
    texts = {
        kafka_name(name): setting_text(value) for layer in layers for name, value in layer.items()
    }
    return [f"{name}={text}" for name, text in texts.items()]


def assignments(*layers: Mapping[str, Setting]) -> list[str]:
    """``--set NAME=VALUE ...``, for the command line."""
    return [word for text in merged(*layers) for word in ("--set", text)]
