"""The stream reader as Spark's versions call it, without Spark."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from minikafka_client.types import TopicPartition
from pyspark_minikafka import stream_reader
from pyspark_minikafka.errors import OptionError, SchemaError
from pyspark_minikafka.options import Options
from pyspark_minikafka.schemas import read_schema
from pyspark_minikafka.source_options import stream_options
from pyspark_minikafka.stream_reader import StreamReader
from tests.spark.source.brokers import Log, Table

BASE = {
    "kafka.bootstrap.servers": "b:1",
    "subscribe": "t",
    "startingOffsets": "earliest",
    "minRecordsPerTask": "1",
}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    found = Table(t=[10, 20])
    monkeypatch.setattr(found, "close", lambda: None)
    monkeypatch.setattr(stream_reader, "Lookups", lambda options: found)
    return found


def new_reader(**given: str) -> StreamReader:
    options = Options({**BASE, **given})
    return StreamReader(options, read_schema(stream_options(Options(BASE))))


def planned(reader: StreamReader, start: Any, end: Any) -> list[tuple[int, int, int]]:
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    return [
        (piece.partition.partition, piece.start, piece.end)
        for task in reader.partitions(start, end)
        for piece in task.value
    ]


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_a_limit_is_refused_where_spark_does_not_let_a_source_limit_batches(
    table: Table, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(stream_reader, "find_spec", lambda name: None)  # Spark 4.1
    with pytest.raises(OptionError, match=f"{name} needs PySpark 4.2 or later"):
        new_reader(**{name: "6"}).initialOffset()
    new_reader().initialOffset()


def test_spark_4_2_passes_the_start_and_limit_of_a_batch(table: Table) -> None:
    reader = new_reader(maxOffsetsPerTrigger="6")
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    end = reader.latestOffset(start, limit)
    assert planned(reader, start, end) == [(0, 0, 2), (1, 0, 4)]
    assert reader.reportLatestOffset() == {"t": {"0": 10, "1": 20}}
    rest = reader.latestOffset(end, ReadAllAvailable())
    assert planned(reader, end, rest) == [(0, 2, 10), (1, 4, 20)]
    assert reader.latestOffset(rest, limit) is rest, "the same text: no batch"
    reader.stop()


def test_spark_4_1_passes_no_start_and_batches_still_continue(table: Table) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    reader.initialOffset()
    end = reader.latestOffset()
    assert planned(reader, start, end) == [(0, 0, 10), (1, 0, 20)]
    assert reader.latestOffset() == end
    table.append(1)
    table.logs[TopicPartition("t", 2)] = Log(end=3)
    later = reader.latestOffset()
    assert planned(reader, end, later) == [(0, 10, 11), (1, 20, 21), (2, 0, 3)]


def test_spark_4_1_continues_from_a_checkpoint(table: Table) -> None:
    before = new_reader()
    end = before.latestOffset(before.initialOffset(), ReadAllAvailable())
    table.append(1)
    reader = new_reader()  # Spark does not ask it for the initial offset
    later = reader.latestOffset()
    assert planned(reader, end, later) == [(0, 10, 11), (1, 20, 21)]


def test_spark_4_1_repeats_a_first_batch_and_continues(table: Table) -> None:
    before = new_reader()
    start = before.initialOffset()
    end = before.latestOffset()
    table.append(1)
    reader = new_reader()
    assert planned(reader, reader.initialOffset(), end) == planned(before, start, end)
    later = reader.latestOffset()
    assert planned(reader, end, later) == [(0, 10, 11), (1, 20, 21)]


def test_limits_are_those_of_the_options() -> None:
    assert new_reader().getDefaultReadLimit() == ReadAllAvailable()
    assert new_reader(minOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMinRows(5)
    both = new_reader(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="9")
    assert both.getDefaultReadLimit() == ReadMaxRows(9)


def test_wrong_options_are_reported_by_the_first_method_and_not_by_the_constructor() -> None:
    for method in ("initialOffset", "getDefaultReadLimit", "latestOffset"):
        with pytest.raises(OptionError, match="endingOffsets is for batches"):
            getattr(new_reader(endingOffsets="latest"), method)()
    schema = read_schema(stream_options(Options(BASE))).add("valeu", "binary")
    with pytest.raises(SchemaError, match="no column 'valeu'; did you mean 'value'"):
        StreamReader(Options(BASE), schema).initialOffset()


def test_a_reader_is_pickled_without_its_connections(table: Table) -> None:
    reader = new_reader()
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert pickle.loads(pickle.dumps(reader)).getDefaultReadLimit() == ReadAllAvailable()
