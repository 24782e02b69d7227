"""`spark.readStream.format("minikafka")`, with Spark and a broker of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from minikafka_client.sync import AdminClient, Writer
from minikafka_client.types import NewTopic
from tests.live_broker import LiveBroker
from tests.spark.conftest import MakeTopic

HERE = Path(__file__).parent


class Stream:
    """A stream of one topic into a list of batches, and whoever writes to the topic."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.checkpoint = checkpoint
        self.batches: dict[int, list[str]] = {}
        self.progress: list[dict[str, Any]] = []

    def write(self, *values: str, partition: int = 0) -> None:
        with Writer(self.bootstrap) as writer:
            for value in values:
                writer.send(self.topic, value.encode(), partition=partition)

    def run(self, **options: str) -> list[str]:
        """Read what there is, as a query that ends then; returns what was read, sorted."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, **options}
        frame = self.spark.readStream.format("minikafka").options(**given).load()
        read: list[str] = []

        def keep(batch: DataFrame, number: int) -> None:
            values = [bytes(row.value).decode() for row in batch.select("value").collect()]
            self.batches[number] = values
            read.extend(values)

        query = (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
            self.progress = [json.loads(each.json) for each in query.recentProgress]
        finally:
            query.stop()
        return sorted(read)


@pytest.fixture
def stream(
    spark: SparkSession, broker: LiveBroker, make_topic: MakeTopic, tmp_path: Path
) -> Stream:
    topic = make_topic(2, prefix="stream")
    return Stream(spark, broker.bootstrap, topic, tmp_path / "checkpoint")


def test_a_stream_goes_on_where_it_was_with_new_partitions_too(
    stream: Stream, admin: AdminClient
) -> None:
    stream.write("a", "b")
    assert stream.run(startingOffsets="earliest") == ["a", "b"]
    stream.write("c", partition=1)
    admin.create_partitions({stream.topic: 3})
    stream.write("d", "e", partition=2)
    assert stream.run(startingOffsets="earliest") == ["c", "d", "e"]
    assert stream.run(startingOffsets="earliest") == []


def test_a_batch_has_no_more_records_than_allowed(stream: Stream) -> None:
    stream.write(*"abcdef")
    stream.write(*"ghijkl", partition=1)
    assert stream.run(startingOffsets="earliest", maxOffsetsPerTrigger="6") == list("abcdefghijkl")
    assert [len(batch) for _, batch in sorted(stream.batches.items())] == [6, 6]
    [source] = stream.progress[0]["sources"]
    ends, latest = source["endOffset"][stream.topic], source["latestOffset"][stream.topic]
    assert (ends, latest) == ({"0": 3, "1": 3}, {"0": 6, "1": 6})


def test_latest_is_where_the_query_began_for_the_first_time(stream: Stream) -> None:
    stream.write("before")
    assert stream.run() == []
    stream.write("between")
    assert stream.run() == ["between"]


def test_a_first_batch_that_failed_is_repeated_with_the_same_records(stream: Stream) -> None:
    stream.write("a")
    assert stream.run(startingOffsets="earliest") == ["a"]
    # As if the driver had died before it noted that the batch was done.
    (stream.checkpoint / "commits" / "0").unlink()
    (stream.checkpoint / "commits" / ".0.crc").unlink()
    stream.write("b")
    stream.batches.clear()
    assert stream.run(startingOffsets="earliest") == ["a", "b"]
    assert stream.batches == {0: ["a"], 1: ["b"]}


def test_a_topic_made_anew_is_told_or_read_from_its_beginning(
    stream: Stream, admin: AdminClient
) -> None:
    stream.write("a", "b")
    assert stream.run(startingOffsets="earliest") == ["a", "b"]
    admin.delete_topics([stream.topic])
    admin.create_topics([NewTopic(stream.topic, 2, 1)])
    stream.write("c", "d", "e")
    with pytest.raises(StreamingQueryException, match=r"DataLossError.*deleted and made anew"):
        stream.run(startingOffsets="earliest")
    assert stream.run(startingOffsets="earliest", failOnDataLoss="false") == ["c", "d", "e"]


def test_wrong_options_of_a_stream_are_told_by_name(stream: Stream) -> None:
    with pytest.raises(PySparkException, match="OptionError: endingOffsets is for batches"):
        stream.run(endingOffsets="latest")


def _checkpoint_of(stream: Stream, kind: str, change: Callable[[str], str]) -> None:
    """Put a stored checkpoint in place, for this stream's topic."""
    copytree(HERE / "checkpoints" / kind, stream.checkpoint)
    for path in (stream.checkpoint / "offsets").iterdir():
        path.write_text(change(path.read_text()))


@pytest.mark.parametrize("kind", ["version-1", "official"])
def test_a_stored_checkpoint_is_gone_on_with(stream: Stream, admin: AdminClient, kind: str) -> None:
    stream.write("a", "b", "c")
    stream.write("x", partition=1)
    topic_id = admin.describe_topics([stream.topic])[stream.topic].topic_id
    _checkpoint_of(
        stream,
        kind,
        lambda text: text.replace("TOPIC-ID", topic_id.hex()).replace("TOPIC", stream.topic),
    )
    assert stream.run(startingOffsets="earliest") == ["c", "x"]
