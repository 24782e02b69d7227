"""The administration that the load needs, through confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import admin

_TIMEOUT_SECONDS = 120.0

# The package exports these without typing them.
_kinds: Any = confluent_kafka
_admin_kinds: Any = admin


def _client(bootstrap: str) -> Any:
    return _admin_kinds.AdminClient({"bootstrap.servers": bootstrap})


def create_topics(bootstrap: str, names: Sequence[str], partitions: int) -> None:
    """Create topics of one replica, and wait until they exist.

    Raises:
        confluent_kafka.KafkaException: the broker refused one.
    """
    new = [_admin_kinds.NewTopic(name, partitions, 1) for name in names]
    client = _client(bootstrap)  # it must outlive its futures
    futures = client.create_topics(new, operation_timeout=_TIMEOUT_SECONDS)
    for future in futures.values():
        future.result(_TIMEOUT_SECONDS)


def end_offsets(
    bootstrap: str, names: Sequence[str], partitions: int
) -> Mapping[tuple[str, int], int]:
    """The end offsets, by topic and partition.

    Raises:
        confluent_kafka.KafkaException: the broker does not answer.
    """
    latest = _admin_kinds.OffsetSpec.latest()
    asked = {
        _kinds.TopicPartition(name, partition): latest
        for name in names
        for partition in range(partitions)
    }
    client = _client(bootstrap)
    futures = client.list_offsets(asked, request_timeout=_TIMEOUT_SECONDS)
    return {
        (one.topic, one.partition): int(future.result(_TIMEOUT_SECONDS).offset)
        for one, future in futures.items()
    }
