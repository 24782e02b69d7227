"""The offsets of a stream, in the format of a query's checkpoint.

    {"orders": {"0": 23, "1": 42},
     "$minikafka": {"version": 1, "from": {...}, "topicIds": {...}, "leaderEpochs": {...}}}

This is the format of Spark's own connector with one more key, which cannot be the name of a topic.
So tools can read it, and a query can continue from a checkpoint of that connector; for the other
direction see `checkpoint`.
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
    """An offset of a checkpoint is malformed."""


def _no_offsets() -> dict[TopicPartition, int]:
    return {}


@dataclass(frozen=True)
class StreamOffset:
    """The position of a stream.

    Attributes:
        offsets: the next offset of each partition.
        starts: the offsets at which the batch that ends here begins, for partitions that do not
            continue from the batch before: all in the first batch, later the new ones.
        topic_ids: to detect that a topic was deleted and created again.
        leader_epochs: of the last record of each partition at the lookup, to detect that a log was
            truncated.
        is_initial: whether it is the sentinel `INITIAL`.
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
"""The position before the first batch.

Spark asks for the initial offset again when it repeats the first batch, and would get different
offsets then. So this has none; the offset at the end of that batch, which is in Spark's write-ahead
log, has its beginning, too.
"""


def by_topic(numbers: Mapping[TopicPartition, int]) -> Json:
    """``{"topic": {"partition": number}}``."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), number in sorted(numbers.items()):
        found.setdefault(topic, {})[str(partition)] = number
    return cast("Json", found)


def from_json(given: object) -> StreamOffset:
    """Parse an offset that `StreamOffset.to_json` or Spark's own connector wrote.

    Raises:
        StreamOffsetError: it is malformed, or a newer version wrote it.
    """
    try:
        return _read(_object(given))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, StreamOffsetError):
            raise
        raise StreamOffsetError(
            f"the checkpoint has the offset {str(given)[:300]}, which does not belong to this "
            f"source; use another checkpointLocation"
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
