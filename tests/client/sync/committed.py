"""What readers of committed records see, on blocking sockets."""

from __future__ import annotations

from minikafka_client import ConsumerRecord, TopicPartition
from minikafka_client.sync import Consumer


def committed(bootstrap: str, topic: str, *, is_open: bool = False) -> list[bytes]:
    """All values by partition and offset; without an open transaction, once all are carried out."""
    records: list[ConsumerRecord] = []
    with (
        Consumer(bootstrap) as careless,
        Consumer(
            bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        where = [TopicPartition(topic, partition) for partition in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(where)
        while not is_open and ends != careless.end_offsets(where):  # markers are on their way
            ends = consumer.end_offsets(where)
        consumer.assign(where)
        while any(consumer.position(each) < ends[each] for each in where):
            records += consumer.poll(timeout_ms=100)
    records.sort(key=lambda record: (record.partition, record.offset))
    return [record.value or b"" for record in records]
