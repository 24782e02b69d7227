"""Where a read starts and ends, as users write it: words, JSON by partition, timestamps.

The precedence is that of Spark's own connector: a timestamp for all partitions, then timestamps by
partition, then offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, cast

from minikafka_client.types import EARLIEST, LATEST, TopicPartition

from .errors import OptionError
from .options import Options

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'


class SpecKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMPS = "timestamps"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class OffsetSpec:
    """Where to start, or where to end.

    Attributes:
        option: its name, for messages.
        of_partition: offsets (-2 is the earliest, -1 the latest), or timestamps in milliseconds.
        timestamp_ms: for all partitions.
    """

    kind: SpecKind
    option: str = ""
    of_partition: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    timestamp_ms: int = 0


def starting(options: Options, default: SpecKind) -> OffsetSpec:
    """Where a read starts.

    Raises:
        OptionError: an option is malformed.
    """
    return _spec(options, "starting", default)


def ending(options: Options) -> OffsetSpec:
    """Where a batch ends.

    Raises:
        OptionError: an option is malformed.
    """
    return _spec(options, "ending", SpecKind.LATEST)


def _spec(options: Options, which: str, default: SpecKind) -> OffsetSpec:
    name = f"{which}Timestamp"
    text = options.text(name)
    if text is not None:
        timestamp_ms = options.integer(name, at_least=0)
        assert timestamp_ms is not None
        return OffsetSpec(SpecKind.TIMESTAMP, name, timestamp_ms=timestamp_ms)
    name = f"{which}OffsetsByTimestamp"
    text = options.text(name)
    if text is not None:
        return OffsetSpec(SpecKind.TIMESTAMPS, name, by_partition(name, text, at_least=0))
    name = f"{which}Offsets"
    text = options.text(name)
    if text is None:
        return OffsetSpec(default, name)
    if text.lower() in ("earliest", "latest"):
        return OffsetSpec(SpecKind(text.lower()), name)
    return OffsetSpec(SpecKind.OFFSETS, name, by_partition(name, text, at_least=EARLIEST))


def refuse_latest_start(spec: OffsetSpec) -> None:
    """Refuse a batch that starts at the latest offset.

    Raises:
        OptionError: it does.
    """
    if spec.kind is SpecKind.LATEST:
        raise OptionError("startingOffsets='latest' is for streams; a batch would read nothing")
    _refuse(spec, LATEST, "latest")


def refuse_earliest_end(spec: OffsetSpec) -> None:
    """Refuse a batch that ends at the earliest offset.

    Raises:
        OptionError: it does.
    """
    if spec.kind is SpecKind.EARLIEST:
        raise OptionError("endingOffsets='earliest' makes an empty batch; use 'latest' or offsets")
    _refuse(spec, EARLIEST, "earliest")


def _refuse(spec: OffsetSpec, offset: int, word: str) -> None:
    if spec.kind is not SpecKind.OFFSETS:
        return
    for (topic, partition), given in spec.of_partition.items():
        if given == offset:
            raise OptionError(
                f"{spec.option} of partition {partition} of topic {topic!r} is {offset} ({word}), "
                f"which a batch does not accept here; set an offset"
            )


def by_partition(name: str, text: str, *, at_least: int) -> dict[TopicPartition, int]:
    """Parse ``{"topic": {"partition": number}}``.

    Raises:
        OptionError: the text is malformed.
    """
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(name, text, _OFFSETS_EXAMPLE).items():
        if not isinstance(partitions, dict):
            raise _unlike(name, text, _OFFSETS_EXAMPLE)
        for partition, number in cast("dict[str, Any]", partitions).items():
            if type(number) is not int or not partition.isdecimal():
                raise _unlike(name, text, _OFFSETS_EXAMPLE)
            if number < at_least:
                raise OptionError(
                    f"{name} of partition {partition} of topic {topic!r} is {number}; it is at "
                    f"least {at_least}"
                )
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def assigned(text: str) -> tuple[TopicPartition, ...]:
    """Parse ``{"topic": [partition, ...]}``.

    Raises:
        OptionError: the text is malformed, or names no partition.
    """
    found: list[TopicPartition] = []
    for topic, partitions in _json_object("assign", text, _PARTITIONS_EXAMPLE).items():
        for partition in _as_list(partitions):
            if type(partition) is not int or partition < 0:
                raise _unlike("assign", text, _PARTITIONS_EXAMPLE)
            found.append(TopicPartition(topic, partition))
    if not found:
        raise _unlike("assign", text, _PARTITIONS_EXAMPLE)
    return tuple(sorted(set(found)))


def _json_object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _unlike(name, text, example)
    return cast("dict[str, Any]", found)


def _as_list(value: Any) -> list[Any]:
    match value:
        case [*items]:
            return items
        case _:
            return [None]


def _unlike(name: str, text: str, example: str) -> OptionError:
    return OptionError(f"{name}={text[:200]!r}; it is JSON like {example}")
