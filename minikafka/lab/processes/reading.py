"""Reads a topic to its end, when all is calm again."""

from __future__ import annotations

import time
from typing import Final

from minikafka_client import KafkaError, TopicPartition
from minikafka_client.options import ConnectionOptions
from minikafka_client.sync import Consumer, Producer

from .target import CannotError

_PATIENCE_S: Final = 40.0


def read_to_the_end(
    bootstrap: str, topic: str, partitions: int, connection: ConnectionOptions
) -> list[list[tuple[int, str]]]:
    """Offsets and values of each partition, without those of aborted transactions.

    Raises:
        CannotError: the end is not reached, for instance because a transaction stays open.
    """
    # What acks=1 has acknowledged may still be above the high watermark: a record behind it with
    # acks=all is not acknowledged before all of it can be read.
    with Producer(bootstrap, acks="all", **connection) as producer:
        for partition in range(partitions):
            producer.send_and_wait(topic, b"", partition=partition)
    where = [TopicPartition(topic, partition) for partition in range(partitions)]
    values: list[list[tuple[int, str]]] = [[] for _ in where]
    deadline = time.monotonic() + _PATIENCE_S
    with (
        Consumer(bootstrap, **connection) as uncommitted,
        Consumer(
            bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **connection,
        ) as consumer,
    ):
        ends = uncommitted.end_offsets(where)
        consumer.assign(where)
        while any(consumer.position(each) < ends[each] for each in where):
            if time.monotonic() > deadline:
                raise CannotError(f"{topic} cannot be read to its end, {ends}")
            try:
                for record in consumer.poll(timeout_ms=100):
                    value = (record.value or b"").decode()
                    if value:
                        values[record.partition].append((record.offset, value))
            except KafkaError as error:
                if not error.is_retriable:
                    raise
    return values
