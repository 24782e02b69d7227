"""What there is to be read at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minikafka_client.types import LATEST, TopicPartition

from .lookups import Lookups


@dataclass(frozen=True)
class Snapshot:
    """The chosen partitions, as brokers described them.

    Attributes:
        topic_ids: of each topic; zeros where the broker is too old to know.
        latest: the offset behind the last record that may be read.
        leader_epochs: of the last record, -1 where the broker is too old to know.
    """

    topic_ids: Mapping[str, bytes]
    latest: Mapping[TopicPartition, int]
    leader_epochs: Mapping[TopicPartition, int]


def take_snapshot(lookups: Lookups) -> Snapshot:
    """Look now.

    Raises:
        OptionError: a topic or a partition does not exist.
        KafkaError: nobody could be asked.
    """
    found = lookups.find()
    ends = lookups.listed(dict.fromkeys(found.partitions, LATEST))
    return Snapshot(
        found.topic_ids,
        {each: end.offset for each, end in ends.items()},
        {each: end.leader_epoch for each, end in ends.items() if end.leader_epoch >= 0},
    )
