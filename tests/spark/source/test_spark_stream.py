"""`spark.readStream.format("minikafka")`, with Spark and a broker of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from minikafka.testing import Broker
from minikafka_client.sync import AdminClient
from minikafka_client.types import NewTopic
from tests.spark.conftest import MakeTopic
from tests.spark.streams import Stream

HERE = Path(__file__).parent


@pytest.fixture
def stream(spark: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> Stream:
    topic = make_topic(2, prefix="stream")
    return Stream(spark, broker.bootstrap, topic, tmp_path / "checkpoint")


def test_a_stream_continues_where_it_stopped_and_reads_new_partitions(
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


def test_latest_means_the_first_start_of_the_query(stream: Stream) -> None:
    stream.write("before")
    assert stream.run() == []
    stream.write("between")
    assert stream.run() == ["between"]


def test_a_failed_first_batch_is_repeated_with_the_same_records(stream: Stream) -> None:
    stream.write("a")
    assert stream.run(startingOffsets="earliest") == ["a"]
    # As if the driver had died before it marked the batch as done.
    (stream.checkpoint / "commits" / "0").unlink()
    (stream.checkpoint / "commits" / ".0.crc").unlink()
    stream.write("b")
    stream.batches.clear()
    assert stream.run(startingOffsets="earliest") == ["a", "b"]
    assert stream.batches == {0: ["a"], 1: ["b"]}


def test_a_recreated_topic_is_reported_or_read_from_its_beginning(
    stream: Stream, admin: AdminClient
) -> None:
    stream.write("a", "b")
    assert stream.run(startingOffsets="earliest") == ["a", "b"]
    admin.delete_topics([stream.topic])
    admin.create_topics([NewTopic(stream.topic, 2, 1)])
    stream.write("c", "d", "e")
    with pytest.raises(StreamingQueryException, match=r"DataLossError.*deleted and created again"):
        stream.run(startingOffsets="earliest")
    assert stream.run(startingOffsets="earliest", failOnDataLoss="false") == ["c", "d", "e"]


def test_wrong_options_of_a_stream_are_reported_by_name(stream: Stream) -> None:
    with pytest.raises(PySparkException, match="OptionError: endingOffsets is for batches"):
        stream.run(endingOffsets="latest")


def _checkpoint_of(stream: Stream, kind: str, change: Callable[[str], str]) -> None:
    """Put a stored checkpoint in place, for this stream's topic."""
    copytree(HERE / "checkpoints" / kind, stream.checkpoint)
    for path in (stream.checkpoint / "offsets").iterdir():
        path.write_text(change(path.read_text()))


@pytest.mark.parametrize("kind", ["version-1", "official"])
def test_a_stream_continues_from_a_stored_checkpoint(
    stream: Stream, admin: AdminClient, kind: str
) -> None:
    stream.write("a", "b", "c")
    stream.write("x", partition=1)
    topic_id = admin.describe_topics([stream.topic])[stream.topic].topic_id
    _checkpoint_of(
        stream,
        kind,
        lambda text: text.replace("TOPIC-ID", topic_id.hex()).replace("TOPIC", stream.topic),
    )
    assert stream.run(startingOffsets="earliest") == ["c", "x"]
