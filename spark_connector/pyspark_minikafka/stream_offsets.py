"""Offsets of a stream, as they stand in a query's checkpoint.

    {"orders": {"0": 23, "1": 42},
     "$minikafka": {"version": 1, "from": {...}, "topicIds": {...}, "leaderEpochs": {...}}}

It is what Spark's own connector writes, with one more key that no topic can have as its name. So
people and tools can read it, and a checkpoint of that connector can be gone on with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from minikafka_client.types import TopicPartition

METADATA_KEY: Final = "$minikafka"
VERSION: Final = 1

Json = dict[str, Any]

_INITIAL: Final = "initial"


class StreamOffsetError(ValueError):
    """An offset of a checkpoint cannot be understood."""


def _no_offsets() -> dict[TopicPartition, int]:
    return {}


@dataclass(frozen=True)
class StreamOffset:
    """How far a stream has come.

    Attributes:
        offsets: the next offset of each partition.
        starts: where partitions begin in the batch that ends here, if they do not go on where the
            batch before ended: all of them in the first batch, later those that are new.
        topic_ids: of the topics, to notice when one was deleted and made anew.
        leader_epochs: of the last record of each partition when this was looked up, to notice when
            a log was truncated.
        is_initial: nothing was looked up yet: `INITIAL`.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=_no_offsets)
    starts: Mapping[TopicPartition, int] = field(default_factory=_no_offsets)
    topic_ids: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=_no_offsets)
    is_initial: bool = False

    def to_json(self) -> Json:
        """For the checkpoint."""
        if self.is_initial:
            return {METADATA_KEY: {"version": VERSION, _INITIAL: True}}
        metadata: Json = {"version": VERSION}
        if self.starts:
            metadata["from"] = by_topic(self.starts)
        if self.topic_ids:
            metadata["topicIds"] = {name: id_.hex() for name, id_ in sorted(self.topic_ids.items())}
        if self.leader_epochs:
            metadata["leaderEpochs"] = by_topic(self.leader_epochs)
        return {**by_topic(self.offsets), METADATA_KEY: metadata}


INITIAL: Final = StreamOffset(is_initial=True)
"""Before the first batch.

Spark asks for the initial offset again when it repeats the first batch, and would get other offsets
then. So this says nothing, and the offset at the end of that batch, which is in Spark's write-ahead
log, says where it began.
"""


def by_topic(numbers: Mapping[TopicPartition, int]) -> Json:
    """``{"topic": {"partition": number}}``."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), number in sorted(numbers.items()):
        found.setdefault(topic, {})[str(partition)] = number
    return cast("Json", found)


def from_json(given: object) -> StreamOffset:
    """Read what `StreamOffset.to_json` or Spark's own connector wrote.

    Raises:
        StreamOffsetError: it is something else, or a newer version wrote it.
    """
    try:
        return _read(_object(given))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, StreamOffsetError):
            raise
        raise StreamOffsetError(
            f"the checkpoint has the offset {str(given)[:300]}, which is none of this source; use "
            f"another checkpointLocation"
        ) from None


def _read(given: Json) -> StreamOffset:
    metadata = _object(given.get(METADATA_KEY, {"version": VERSION}))
    version = metadata["version"]
    if type(version) is not int or version < 1:
        raise ValueError(version)
    if version > VERSION:
        raise StreamOffsetError(
            f"the checkpoint was written by a newer minikafka (offsets of version {version}, this "
            f"one reads up to {VERSION}); upgrade it"
        )
    if metadata.get(_INITIAL):
        return INITIAL
    return StreamOffset(
        offsets=_numbers({name: each for name, each in given.items() if name != METADATA_KEY}),
        starts=_numbers(metadata.get("from", {})),
        topic_ids={
            name: bytes.fromhex(id_) for name, id_ in _object(metadata.get("topicIds", {})).items()
        },
        leader_epochs=_numbers(metadata.get("leaderEpochs", {})),
    )


def _object(given: object) -> Json:
    if not isinstance(given, dict):
        raise TypeError(given)
    return cast("Json", given)


def _numbers(given: object) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partitions in _object(given).items():
        for partition, number in _object(partitions).items():
            if type(number) is not int or number < -1:
                raise ValueError(number)
            found[TopicPartition(topic, int(partition))] = number
    return found
