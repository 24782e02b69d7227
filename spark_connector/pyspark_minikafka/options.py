"""The options of a read or a write: names in any case, values as texts.

They are those of Spark's own connector, `spark-sql-kafka`, with a few of our own. Source and sink
know each other's names, because people keep one dictionary for both; a name that neither knows is
refused, with the one that was probably meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from .errors import OptionError

KAFKA_PREFIX: Final = "kafka."
"""Before the name of a property of Kafka's own clients."""

STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")
"""Which topics to read: one of them is given."""

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
"""What a read understands besides properties of Kafka's clients."""

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
"""What a write understands besides properties of Kafka's clients, and what Spark puts in itself."""

_UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")

_Choice = TypeVar("_Choice", bound=str)


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?``, or nothing where no known name is like it."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


class Options:
    """The options that were given.

    Args:
        given: names in any case.

    Raises:
        OptionError: neither the source nor the sink has an option of such a name.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        known = {name.lower(): name for name in (*SOURCE_OPTIONS, *SINK_OPTIONS)}
        for name in self._given:
            if name not in known and not name.startswith(KAFKA_PREFIX):
                meant = suggestion(name, [*known.values(), "kafka.bootstrap.servers"])
                raise OptionError(f"there is no option {name!r}{meant}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def kafka_properties(self) -> dict[str, str]:
        """The properties of Kafka's clients, without their prefix."""
        return {
            name.removeprefix(KAFKA_PREFIX): value
            for name, value in self._given.items()
            if name.startswith(KAFKA_PREFIX)
        }

    def text(self, name: str) -> str | None:
        """An option as it was given, without spaces around it."""
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def integer(self, name: str, default: int | None = None, *, at_least: int = 1) -> int | None:
        """A whole number.

        Raises:
            OptionError: it is none, or too small.
        """
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            value = at_least - 1
        if value < at_least:
            raise OptionError(f"{name}={text!r}; it is a whole number, at least {at_least}")
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        """True or false.

        Raises:
            OptionError: it is neither.
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
            OptionError: it is none of them.
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
        """A time as Spark writes it (``15m``, ``10s``, ``500ms``), in milliseconds.

        Raises:
            OptionError: it is none.
        """
        text = self.text(name)
        if text is None:
            return default_ms
        found = _DURATION.fullmatch(text.lower())
        if found is None or found[2] not in _UNITS_MS:
            raise OptionError(f"{name}={text!r}; it is a number with ms, s, m, h or d, like 15m")
        return int(found[1]) * _UNITS_MS[found[2]]
