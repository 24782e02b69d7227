"""A task on a worker, without Spark: it reads ranges from a broker of ours."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from minikafka.testing import Broker
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import RequestTimeoutError
from minikafka_client.sync import AdminClient, Reader, Writer
from minikafka_client.types import IsolationLevel, TopicPartition
from pyspark_minikafka import record_source
from pyspark_minikafka.columns.decoder import COLUMN_TYPES
from pyspark_minikafka.environment import connector_version
from pyspark_minikafka.errors import DataLossError
from pyspark_minikafka.kafka_properties import KafkaProperties
from pyspark_minikafka.ranges import OffsetRange
from pyspark_minikafka.record_source import RecordSource, fetch_size_bytes, joined
from tests.spark.conftest import MakeTopic

SCHEMA = pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in ("partition", "offset")])


@pytest.fixture
def source(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> RecordSource:
    # Otherwise gc.freeze() would hide the objects of this process.
    monkeypatch.setattr(record_source, "prepare_worker", lambda version: None)
    return RecordSource(
        kafka=KafkaProperties(broker.bootstrap, {}),
        isolation_level=IsolationLevel.READ_COMMITTED,
        fail_on_data_loss=True,
        patience_ms=60_000,
        driver_version=connector_version(),
    )


def offsets(source: RecordSource, *ranges: tuple[TopicPartition, int, int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in source.batches([OffsetRange(*each) for each in ranges], SCHEMA):
        for row in batch.to_pylist():
            found.setdefault(row["partition"], []).append(row["offset"])
    return found


def write(broker: Broker, topic: str, partition: int, records: int) -> None:
    with Writer(broker.bootstrap) as writer:
        for _ in range(records):
            writer.send(topic, b"v", partition=partition)


def test_a_task_reads_pieces_of_several_partitions(
    source: RecordSource, broker: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    for partition in range(3):
        write(broker, topic, partition, 20)
    t0, t1, t2 = (TopicPartition(topic, number) for number in range(3))
    assert offsets(source, (t0, 0, 20), (t1, 7, 9), (t2, 19, 20)) == {
        0: list(range(20)),
        1: [7, 8],
        2: [19],
    }


def test_records_deleted_by_retention_before_the_task_are_a_loss(
    source: RecordSource, broker: Broker, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    write(broker, topic, 0, 10)
    write(broker, topic, 1, 10)
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.delete_records({t0: 6})
    message = f"{topic}-0 begins at 6, the query was at 2 .retention or DeleteRecords"
    with pytest.raises(DataLossError, match=message) as caught:
        offsets(source, (t0, 2, 8), (t1, 0, 3))
    assert "set failOnDataLoss to false" in str(caught.value)
    tolerant = replace(source, fail_on_data_loss=False)
    assert offsets(tolerant, (t0, 2, 8), (t1, 0, 3)) == {0: [6, 7], 1: [0, 1, 2]}
    assert offsets(tolerant, (t0, 2, 5)) == {}


class Impatient(Reader):
    """Gives up when it has read ten records of a partition and is to read more."""

    def __init__(
        self, bootstrap: str, ranges: dict[TopicPartition, tuple[int, int]], **options: Any
    ) -> None:
        self.is_hopeless = any(start <= 10 < end for start, end in ranges.values())
        there = {each: (start, min(end, 10)) for each, (start, end) in ranges.items()}
        super().__init__(bootstrap, there if self.is_hopeless else ranges, **options)

    def __iter__(self) -> Iterator[ConsumedBatch]:
        yield from super().__iter__()
        if self.is_hopeless:
            raise RequestTimeoutError("no records within patience_ms")


def test_a_log_that_ends_before_the_range_is_a_loss(
    source: RecordSource,
    broker: Broker,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_source, "Reader", Impatient)
    topic = make_topic(1)
    write(broker, topic, 0, 10)
    t0 = TopicPartition(topic, 0)
    for start in (4, 13):  # beyond the end, too
        with pytest.raises(DataLossError, match=f"{topic}-0 ends at 10, the query should read to"):
            offsets(source, (t0, start, 15))
    assert offsets(replace(source, fail_on_data_loss=False), (t0, 4, 15)) == {0: list(range(4, 10))}


def test_unavailable_brokers_are_not_a_loss(
    source: RecordSource,
    broker: Broker,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic(1)
    write(broker, topic, 0, 10)
    error = RequestTimeoutError("no records within patience_ms")

    class Silent:
        def __init__(self, *args: object, **options: object) -> None:
            raise error

    monkeypatch.setattr(record_source, "Reader", Silent)
    with pytest.raises(RequestTimeoutError) as caught:
        offsets(source, (TopicPartition(topic, 0), 0, 10))
    assert caught.value is error


def test_a_source_can_be_pickled(source: RecordSource) -> None:
    assert pickle.loads(pickle.dumps(source)) == source


def test_small_batches_are_joined_and_large_ones_are_not() -> None:
    def batch(rows: int) -> pa.RecordBatch:
        columns = [pa.array([0] * rows, pa.int32()), pa.array(range(rows), pa.int64())]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    sizes = [0, 4_000, 0, 5_000, 2_000, 20_000, 1, 2]
    found = list(joined(map(batch, sizes), SCHEMA))
    assert [each.num_rows for each in found] == [11_000, 20_000, 3]
    assert list(joined([], SCHEMA)) == []


@pytest.mark.parametrize(
    ("ranges", "size_bytes"),
    [
        ([(1, 100)], 64 * 1024),
        ([(1, 100), (1_000, 1_000)], 1_000 * 1024),
        ([(4, 200_000)], 4 * 200_000),
        ([(1_000_000, 100)], 4 * 1024 * 1024),
    ],
)
def test_a_fetch_is_not_much_larger_than_the_range(
    ranges: list[tuple[int, int]], size_bytes: int
) -> None:
    given = [
        OffsetRange(TopicPartition("t", number), 5, 5 + count, record_size_bytes)
        for number, (count, record_size_bytes) in enumerate(ranges)
    ]
    assert abs(fetch_size_bytes(given) - size_bytes) <= 1024
