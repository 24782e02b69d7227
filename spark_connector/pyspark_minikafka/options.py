"""The options of a read or a write: names in any case, values as strings.

They are those of Spark's own connector, `spark-sql-kafka`, and a few more. Source and sink accept
each other's options, because people keep one dictionary for both. An unknown name is refused, with
a suggestion.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from .errors import OptionError

KAFKA_PREFIX: Final = "kafka."
"""Prefix of the properties of Kafka's own clients."""

STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")
"""Which topics to read: exactly one is set."""

SOURCE_OPTIONS: Final = (
    *STRATEGIES,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "isolationLevel",
    "columns",
    "minRecordsPerTask",
)
"""The options of a read, besides ``kafka.*``."""

SINK_OPTIONS: Final = (
    "topic",
    "includeHeaders",
    "deliveryGuarantee",
    "sinkId",
    "commitLogTopic",
    "twoPhaseCommit",
    "checkpointLocation",
    "queryName",
)
"""The options of a write, besides ``kafka.*``; the last two are added by Spark."""

_UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"([0-9]+)\s*([a-z]*)")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_INTEGER_MAX: Final = (1 << 63) - 1

_Choice = TypeVar("_Choice", bound=str)


def suggestion(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """``; did you mean ...?``, or nothing where no known name is similar."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean {prefix + by_lower[close[0]]!r}?" if close else ""


def parse_integer(text: str) -> int:
    """Parse a whole number of 64 bits as Java does: no underscores, no other digits than ours.

    Raises:
        ValueError: it is something else.
    """
    if not _INTEGER.fullmatch(text) or not -_INTEGER_MAX - 1 <= int(text) <= _INTEGER_MAX:
        raise ValueError(text)
    return int(text)


class Options:
    """The options of one read or write.

    Raises:
        OptionError: an option is unknown to both source and sink.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        known = {name.lower(): name for name in (*SOURCE_OPTIONS, *SINK_OPTIONS)}
        for name in self._given:
            if name not in known and not name.startswith(KAFKA_PREFIX):
                if name == "path":
                    raise OptionError(
                        f"{self._given[name]!r} was given as a path, and a topic has none: leave "
                        f"it out of load(), save() or start(), and set the option 'subscribe' "
                        f"to read or 'topic' to write"
                    )
                meant = suggestion(name, [*known.values(), "kafka.bootstrap.servers"])
                raise OptionError(f"there is no option {name!r}{meant}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def kafka_properties(self) -> dict[str, str]:
        """The properties of Kafka's clients, without the prefix."""
        return {
            name.removeprefix(KAFKA_PREFIX): value
            for name, value in self._given.items()
            if name.startswith(KAFKA_PREFIX)
        }

    def text(self, name: str) -> str | None:
        """A value without surrounding spaces."""
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def integer(self, name: str, default: int | None = None, *, at_least: int = 1) -> int | None:
        """A whole number.

        Raises:
            OptionError: it is not a number, or too small.
        """
        text = self.text(name)
        if text is None:
            return default
        try:
            value = parse_integer(text)
        except ValueError:
            value = at_least - 1
        if value < at_least:
            raise OptionError(f"{name}={text!r}; it is a whole number, at least {at_least}")
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        """True or false, in any case.

        Raises:
            OptionError: it is something else.
        """
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"{name}={text!r}; it is true or false")
        return text.lower() == "true"

    def choice(self, name: str, choices: Iterable[_Choice], default: _Choice) -> _Choice:
        """One of several words, in any case.

        Raises:
            OptionError: it is another word.
        """
        text = self.text(name)
        if text is None:
            return default
        by_lower = {each.lower(): each for each in choices}
        if text.lower() not in by_lower:
            words = " or ".join(by_lower.values())
            raise OptionError(f"{name}={text!r}; it is {words}")
        return by_lower[text.lower()]

    def duration_ms(self, name: str, default_ms: int) -> int:
        """A duration as Spark writes it (``15m``, ``10s``, ``500ms``), in milliseconds.

        Raises:
            OptionError: it is malformed.
        """
        text = self.text(name)
        if text is None:
            return default_ms
        found = _DURATION.fullmatch(text.lower())
        if found is None or found[2] not in _UNITS_MS:
            raise OptionError(f"{name}={text!r}; it is a number with ms, s, m, h or d, like 15m")
        return int(found[1]) * _UNITS_MS[found[2]]
