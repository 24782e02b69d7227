"""Reads of committed records."""

from __future__ import annotations

from minikafka_client import LATEST, ConsumerRecord, IsolationLevel, TopicPartition
from minikafka_client.sync import AdminClient, Reader
from tests.kit.waiting import work_until


def wait_for_markers(bootstrap: str) -> None:
    """Wait until decided transactions are visible."""
    with AdminClient(bootstrap) as admin:
        work_until(
            lambda: not admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]),
            what="markers in all partitions",
        )


def committed(bootstrap: str, topic: str) -> list[ConsumerRecord[bytes, bytes]]:
    """All records by partition; waits until decided transactions are visible."""
    wait_for_markers(bootstrap)
    with AdminClient(bootstrap) as admin:
        count = len(admin.describe_topics([topic])[topic].partitions)
        partitions = [TopicPartition(topic, number) for number in range(count)]
        ends = admin.list_offsets(
            dict.fromkeys(partitions, LATEST), isolation_level=IsolationLevel.READ_COMMITTED
        )
    ranges = {partition: (0, ends[partition].offset) for partition in partitions}
    with Reader(bootstrap, ranges, isolation_level=IsolationLevel.READ_COMMITTED) as reader:
        found = [record for run in reader for record in run.records]
    return sorted(found, key=lambda record: (record.partition, record.offset))


def values(bootstrap: str, topic: str) -> list[str]:
    """Their values, sorted."""
    return sorted((record.value or b"").decode() for record in committed(bootstrap, topic))
