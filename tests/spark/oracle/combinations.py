"""Random options of reads, valid and invalid."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Final

from .library import START_MS, Library, Options

Partitions = dict[str, list[int]]
_FAR: Final = "10000"
Draw = Callable[[random.Random, Partitions], Options]


def drawn(dice: random.Random, library: Library) -> Options:
    """The options of one read, with names in varying case."""
    options, partitions = _topics(dice, library)
    for draws in (_STARTS, _ENDS):
        options.update(dice.choice(draws)(dice, partitions))
    for name, values in _OTHERS.items():
        value = dice.choice(values)
        if value:
            options[name] = value
    if _FAR in options.get("startingOffsets", ""):
        # Where Spark's connector splits partitions, it does not notice an empty range.
        for name in ("minPartitions", "maxRecordsPerPartition"):
            options.pop(name, None)
    return {
        name if name.startswith("kafka.") else dice.choice((name, name, name.lower())): value
        for name, value in options.items()
    }


def _topics(dice: random.Random, library: Library) -> tuple[Options, Partitions]:
    there = {name: list(range(count)) for name, count in library.partitions.items()}
    topics = dice.sample(sorted(there), dice.choice((1, 1, 2)))
    match dice.choice(("subscribe", "assign", "subscribePattern")):
        case "subscribe":
            names = dice.choice((",", " , ")).join(topics)
            return {"subscribe": names}, {name: there[name] for name in topics}
        case "assign":
            some = {
                name: dice.sample(there[name], dice.randint(1, len(there[name]))) for name in topics
            }
            return {"assign": json.dumps(some)}, some
        case strategy:
            pattern, endings = dice.choice(_PATTERNS)
            chosen = {name: there[name] for name in there if name.endswith(endings)}
            return {strategy: pattern.replace("PREFIX", library.prefix)}, chosen


def _nothing(dice: random.Random, partitions: Partitions) -> Options:
    return {}


def _word(name: str, word: str) -> Draw:
    return lambda dice, partitions: {name: word}


def _numbers(name: str, *choices: int) -> Draw:
    def draw(dice: random.Random, partitions: Partitions) -> Options:
        chosen = {
            topic: {str(partition): dice.choice(choices) for partition in numbers}
            for topic, numbers in partitions.items()
        }
        if dice.random() < 0.1:
            chosen.popitem()
        return {name: json.dumps(chosen)}

    return draw


def _timestamp(name: str, *choices: int) -> Draw:
    return lambda dice, partitions: {name: str(dice.choice(choices))}


def _ends(dice: random.Random, partitions: Partitions) -> Options:
    """Existing offsets, also of the empty partition."""
    ends = {
        topic: {str(number): 0 if number == 2 else dice.choice((-1, 0, 5, 8)) for number in numbers}
        for topic, numbers in partitions.items()
    }
    return {"endingOffsets": json.dumps(ends)}


def _ends_that_never_come(dice: random.Random, partitions: Partitions) -> Options:
    """Ends beyond the log, for which Spark's connector waits."""
    draw = _numbers("endingOffsets", 5, 10**9)
    return {**draw(dice, partitions), "kafkaConsumer.pollTimeoutMs": "3000"}


_PATTERNS: Final[list[tuple[str, tuple[str, ...]]]] = [
    ("PREFIX-plain", ("plain",)),
    ("^PREFIX.*", ("",)),
    ("PREFIX", ("",)),
    ("PREFIX-p", ("plain", "packed")),
    ("PREFIX.*(?:ain|tted)$", ("plain", "committed")),
    ("(?i)PREFIX-P[A-K&&[^B]]", ("packed",)),
    (r"PREFIX\p{Punct}[a-z&&[^p]]++", ("committed",)),
    (r"\QPREFIX-\Ep(?!l)", ("packed",)),
]
"""Patterns, and the suffixes of the topics that they find."""

_STARTS: Final[list[Draw]] = [
    _nothing,
    _word("startingOffsets", "earliest"),
    _word("startingOffsets", "EARLIEST"),
    _numbers("startingOffsets", -2),
    _numbers("startingOffsets", -2, 0, 3, 4, 5),
    _numbers("startingOffsets", -2, -1, 4, int(_FAR)),
    _timestamp("startingTimestamp", 0, START_MS, START_MS + 4_001),
    _timestamp("startingTimestamp", START_MS + 4_001, START_MS + 40_000, 10**13),
    _numbers("startingOffsetsByTimestamp", 0, START_MS, START_MS + 3_999),
]
_ENDS: Final[list[Draw]] = [
    _nothing,
    _word("endingOffsets", "latest"),
    _numbers("endingOffsets", -1),
    _ends,
    _ends,
    _numbers("endingOffsets", 0, 5, -2),
    _ends_that_never_come,
    _timestamp("endingTimestamp", START_MS + 10_000, 10**13),
    _numbers("endingOffsetsByTimestamp", START_MS + 6_000, START_MS + 7_001, 10**13),
]
_OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "includeHeaders": ("", "true", "false", "TRUE"),
    "failOnDataLoss": ("", "true", "false"),
    "startingOffsetsByTimestampStrategy": ("", "", "error", "latest"),
    "minPartitions": ("", "", "1", "7"),
    "maxRecordsPerPartition": ("", "", "6"),
    "kafka.isolation.level": ("read_committed", "read_uncommitted"),
    "groupIdPrefix": ("", "", "prefix"),
    "kafka.fetch.min.bytes": ("", "", "1"),
}
