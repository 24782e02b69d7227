"""Spark writes to our broker: all kinds of columns, in batches and in streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from minikafka.testing import Broker
from minikafka_client.partitioner import partition_for_key
from minikafka_client.sync import AdminClient
from tests.spark.sink.reading import committed, values

MakeTopic = Callable[..., str]


def write_texts(folder: Path, batch: int, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{batch}.txt").write_text("\n".join(lines) + "\n")


def start(rows: DataFrame, broker: Broker, checkpoint: Path, **options: str) -> StreamingQuery:
    """Write all available rows, and wait."""
    writer = rows.writeStream.format("minikafka").trigger(availableNow=True)
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap)
    query = writer.options(**options, checkpointLocation=str(checkpoint)).start()
    query.awaitTermination()
    return query


def texts(spark: SparkSession, folder: Path) -> DataFrame:
    """One file in each micro-batch."""
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def test_a_batch_with_all_columns(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic
) -> None:
    one, two = make_topic(4), make_topic(2)
    rows = spark.sql(
        f"""
        select '{one}' topic, 'key' key, 'text' value, null partition, null headers, 1 ignored
        union all select '{one}', null, null, 3, array(named_struct('key', 'h', 'value', X'07'))
            , 2
        union all select '{two}', 'x', 'other', 1, array(), 3
        """
    ).selectExpr("topic", "key", "value", "int(partition)", "headers", "ignored")
    rows.write.format("minikafka").option("kafka.bootstrap.servers", broker.bootstrap).mode(
        "append"
    ).save()
    found = {
        (r.topic, r.partition, r.key, r.value, tuple(r.headers))
        for topic in (one, two)
        for r in committed(broker.bootstrap, topic)
    }
    assert found == {
        (one, partition_for_key(b"key", 4), b"key", b"text", ()),
        (one, 3, None, None, (("h", b"\x07"),)),
        (two, 1, b"x", b"other", ()),
    }


def test_a_batch_of_many_rows(spark: SparkSession, broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    rows = spark.range(0, 30_000, 1, 2).selectExpr("cast(id as string) value")
    writer = rows.write.format("minikafka").mode("append").option("topic", topic)
    writer.option("kafka.bootstrap.servers", broker.bootstrap).option(
        "kafka.compression.type", "zstd"
    ).option("kafka.batch.size", "20000").save()
    assert values(broker.bootstrap, topic) == sorted(map(str, range(30_000)))


@pytest.mark.parametrize(
    ("columns", "mode", "options", "message"),
    [
        ("'k' as key", "append", {"topic": "t"}, "the column 'value' is missing"),
        ("'v' as value", "append", {}, "the option 'topic' is missing"),
        ("'v' as value", "overwrite", {"topic": "t"}, "a topic cannot be overwritten"),
        ("'v' as value", "append", {"topic": "t", "topics": "t"}, "did you mean 'topic'"),
        (
            "'v' as value, string(null) as topic",
            "append",
            {},
            "a row has null in the column 'topic'",
        ),
        ("'v' as value, 9 as partition", "append", {"topic": "{topic}"}, "the partitions 0 to 1"),
    ],
)
def test_rows_that_cannot_be_written_are_reported(
    spark: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    columns: str,
    mode: str,
    options: dict[str, str],
    message: str,
) -> None:
    topic = make_topic(2)
    given = {name: value.format(topic=topic) for name, value in options.items()}
    rows = spark.range(1).selectExpr(*columns.split(", "))
    writer = rows.write.format("minikafka").mode(mode).options(**given)
    with pytest.raises(PySparkException, match=message):
        writer.option("kafka.bootstrap.servers", broker.bootstrap).save()


@pytest.mark.parametrize(
    "options",
    [{"deliveryGuarantee": "at-least-once"}, {}, {"twoPhaseCommit": "off"}],
    ids=["at-least-once", "two-phase", "one-phase"],
)
def test_a_written_stream_continues_after_a_restart(
    spark: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    admin: AdminClient,
    tmp_path: Path,
    options: dict[str, str],
) -> None:
    topic, folder = make_topic(2), tmp_path / "in"
    options = {**options, "topic": topic, "sinkId": topic}
    for batch in range(3):
        write_texts(folder, batch, f"{batch}-a", f"{batch}-b")
        query = start(texts(spark, folder), broker, tmp_path / "checkpoint", **options)
        assert query.exception() is None
    expected = [f"{batch}-{letter}" for batch in range(3) for letter in "ab"]
    assert values(broker.bootstrap, topic) == expected
    states = {
        each.state for each in admin.list_transactions() if each.transactional_id.startswith(topic)
    }
    assert states == (set() if "deliveryGuarantee" in options else {"CompleteCommit"})


def test_a_restored_older_checkpoint_is_refused(
    spark: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, folder, checkpoint = make_topic(1), tmp_path / "in", tmp_path / "checkpoint"
    for batch in range(2):
        write_texts(folder, batch, f"{batch}")
    start(texts(spark, folder), broker, checkpoint, topic=topic)
    for log in ("offsets", "commits"):
        for path in [*(checkpoint / log).glob("*1"), *(checkpoint / log).glob(".*1.crc")]:
            path.unlink()
    (checkpoint / "commits" / "0").unlink()
    with pytest.raises(PySparkException, match="the checkpoint was set back to an older state"):
        start(texts(spark, folder), broker, checkpoint, topic=topic)
    assert values(broker.bootstrap, topic) == ["0", "1"]
