"""`spark.read.format("minikafka")`, with Spark and a broker of ours."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minikafka.testing import Broker
from minikafka_client.sync import AdminClient, Producer, Writer
from minikafka_client.types import TopicPartition
from pyspark_minikafka.columns import COLUMN_NAMES
from tests.spark.conftest import MakeTopic

T = 1_700_000_000_000


class Topic:
    """A topic with three partitions of ten records each, one second apart."""

    def __init__(self, spark: SparkSession, bootstrap: str, name: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.name = name

    def fill(self) -> None:
        with Writer(self.bootstrap, compression_type="lz4") as writer:
            for offset in range(10):
                for partition in range(3):
                    writer.send(
                        self.name,
                        None if offset == 9 else f"v{offset}".encode(),
                        f"k{partition}".encode() if offset else None,
                        partition=partition,
                        timestamp_ms=T + 1000 * offset,
                        headers=[("name", b"x"), ("null", None)] if offset == 5 else (),
                    )

    def frame(self, **options: str) -> DataFrame:
        given = {"kafka.bootstrap.servers": self.bootstrap, **options}
        if not {"subscribePattern", "assign"} & set(given):
            given.setdefault("subscribe", self.name)
        return self.spark.read.format("minikafka").options(**given).load()

    def offsets(self, frame: DataFrame) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for row in frame.select("partition", "offset").collect():
            found.setdefault(row.partition, []).append(row.offset)
        assert all(each == sorted(each) for each in found.values()), "offset order"
        return found


@pytest.fixture(scope="module")
def topic(spark: SparkSession, broker: Broker, make_topic: MakeTopic) -> Topic:
    found = Topic(spark, broker.bootstrap, make_topic(3, prefix="batch"))
    found.fill()
    return found


def of_all(offsets: list[int]) -> dict[int, list[int]]:
    return {0: offsets, 1: offsets, 2: offsets}


def by_partition(topic: Topic, **offsets: int) -> str:
    return json.dumps({topic.name: {name[1:]: offset for name, offset in offsets.items()}})


def test_all_columns_are_those_of_the_official_connector(topic: Topic) -> None:
    frame = topic.frame(includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert tuple(frame.columns) == COLUMN_NAMES
    rows = frame.orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in rows] == [
        (partition, offset) for partition in range(3) for offset in range(10)
    ]
    for row in rows:
        assert row.topic == topic.name
        assert row.key == (f"k{row.partition}".encode() if row.offset else None)
        assert row.value == (None if row.offset == 9 else f"v{row.offset}".encode())
        assert row.timestamp.timestamp() * 1000 == T + 1000 * row.offset
        assert row.timestampType == 0
        headers = [("name", b"x"), ("null", None)] if row.offset == 5 else None
        assert (row.headers and [tuple(each) for each in row.headers]) == headers


def test_offsets_and_timestamps_bound_a_read(topic: Topic) -> None:
    starts, ends = by_partition(topic, p0=3, p1=-2, p2=9), by_partition(topic, p0=5, p1=2, p2=-1)
    frame = topic.frame(startingOffsets=starts, endingOffsets=ends)
    assert topic.offsets(frame) == {0: [3, 4], 1: [0, 1], 2: [9]}
    frame = topic.frame(startingTimestamp=str(T + 7_500), endingTimestamp=str(T + 9_000))
    assert topic.offsets(frame) == {0: [8], 1: [8], 2: [8]}
    times = by_partition(topic, p0=T + 9_000, p1=T + 8_001, p2=T)
    frame = topic.frame(
        startingOffsetsByTimestamp=times,
        endingOffsetsByTimestamp=by_partition(topic, p0=T + 99_000, p1=T + 99_000, p2=T + 1),
    )
    assert topic.offsets(frame) == {0: [9], 1: [9], 2: [0]}
    frame = topic.frame(
        startingTimestamp=str(T + 99_000), startingOffsetsByTimestampStrategy="latest"
    )
    assert topic.offsets(frame) == {}


def test_topics_are_assigned_or_found_by_a_pattern(topic: Topic, make_topic: MakeTopic) -> None:
    frame = topic.frame(assign=json.dumps({topic.name: [2, 0]}))
    assert set(topic.offsets(frame)) == {0, 2}
    other = make_topic(1, prefix=topic.name)  # begins with the same letters
    with Writer(topic.bootstrap) as writer:
        writer.send(other, b"of another topic")
    frame = topic.frame(subscribePattern=f"^{topic.name}$|no-such-topic")
    assert {row.topic for row in frame.select("topic").collect()} == {topic.name}
    frame = topic.frame(subscribePattern=f"{topic.name[1:]}(?!\\d)")  # anywhere in the name
    assert frame.count() == 31


def test_only_selected_columns_are_decoded(topic: Topic) -> None:
    frame = topic.frame(columns="offset,value")
    assert frame.columns == ["offset", "value"]
    assert {bytes(row.value) for row in frame.where("offset = 4").collect()} == {b"v4"}
    reader = topic.spark.read.format("minikafka").schema("timestamp timestamp, topic string")
    options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name}
    frame = reader.options(**options).load()
    assert frame.columns == ["timestamp", "topic"]
    assert frame.count() == 30


def test_options_set_the_number_of_tasks(topic: Topic) -> None:
    def tasks(**options: str) -> int:
        frame = topic.frame(**options)
        assert frame.count() == 30
        return frame.rdd.getNumPartitions()

    assert tasks() == 1
    assert tasks(minRecordsPerTask="1") == 3
    assert tasks(minPartitions="6") == 6
    assert tasks(maxRecordsPerPartition="4") == 9


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("partition = 1", {1: list(range(10))}),
        ("partition IN (0, 2) AND offset >= 8", {0: [8, 9], 2: [8, 9]}),
        ("partition <> 1 AND offset BETWEEN 2 AND 3", {0: [2, 3], 2: [2, 3]}),
        ("offset < 1 OR offset > 8", of_all([0, 9])),
        ("timestamp >= TIMESTAMP'2023-11-14 22:13:28Z'", of_all([8, 9])),
        ("timestamp > TIMESTAMP'2023-11-14 22:13:28Z'", of_all([9])),
        ("topic = 'another'", {}),
        ("key IS NULL AND partition > 1", {2: [0]}),
    ],
)
def test_predicates_narrow_the_read_and_never_the_result(
    topic: Topic, predicate: str, expected: dict[int, list[int]]
) -> None:
    conf = "spark.sql.python.filterPushdown.enabled"
    topic.spark.conf.set(conf, "true")
    try:
        assert topic.offsets(topic.frame().where(predicate)) == expected
    finally:
        topic.spark.conf.unset(conf)


def test_aborted_transactions_are_skipped_by_default(topic: Topic, make_topic: MakeTopic) -> None:
    name = make_topic(1, prefix="transactions")
    with Producer(topic.bootstrap, transactional_id=name) as producer:
        for value in (b"kept", b"aborted", b"kept too"):
            with suppress(LookupError), producer.transaction():
                producer.send(name, value)
                producer.flush()  # what has not been sent is not in the log either
                if value == b"aborted":
                    raise LookupError

    def values(**options: str) -> list[bytes]:
        rows = topic.frame(subscribe=name, columns="value", **options).collect()
        return [bytes(row.value) for row in rows]

    assert values() == [b"kept", b"kept too"]
    assert values(**{"kafka.isolation.level": "read_uncommitted"}) == [
        b"kept",
        b"aborted",
        b"kept too",
    ]


def test_lost_records_are_reported_or_skipped(
    topic: Topic, admin: AdminClient, make_topic: MakeTopic
) -> None:
    name = make_topic(1, prefix="shortened")
    with Writer(topic.bootstrap) as writer:
        for _ in range(5):
            writer.send(name, b"v")
    admin.delete_records({TopicPartition(name, 0): 3})
    given: dict[str, Any] = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 1}})}
    with pytest.raises(
        PySparkException, match=f"DataLossError.*before the first record of {name}-0"
    ):
        topic.frame(**given).count()
    assert topic.offsets(topic.frame(failOnDataLoss="false", **given)) == {0: [3, 4]}
    assert topic.offsets(topic.frame(subscribe=name)) == {0: [3, 4]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "no-such-topic"}, "MissingTopicsError: there is no topic 'no-such-topic'"),
        ({"startingOfsets": "earliest"}, "OptionError: there is no option 'startingofsets'"),
        ({"startingOffsets": "{x"}, "OptionError: startingOffsets='{x'; it is JSON like"),
        ({"startingOffsets": "latest"}, "OptionError: startingOffsets='latest' is for streams"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "50"},
            "ConnectionLostError: cannot connect to 127.0.0.1:1",
        ),
    ],
)
def test_errors_are_reported_in_one_line(
    topic: Topic, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        topic.frame(**options).count()
    [line] = [line for line in str(caught.value).splitlines() if message in line]
    assert line.startswith(("pyspark_minikafka.errors.", "pyspark_minikafka.", "minikafka_client."))


def test_a_column_of_another_type_is_refused(topic: Topic) -> None:
    reader = topic.spark.read.format("minikafka").schema("value string")
    options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name}
    with pytest.raises(PySparkException, match="column 'value' is binary, not string; cast it"):
        reader.options(**options).load().count()
