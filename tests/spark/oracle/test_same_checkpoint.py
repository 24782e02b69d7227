"""A query changes from one connector to the other and back, with one checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minikafka.testing import Broker
from pyspark_minikafka.checkpoint import rewrite
from tests.spark.conftest import MakeTopic
from tests.spark.oracle.library import OFFICIAL, OURS
from tests.spark.streams import Stream

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def stream(official: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> Stream:
    topic = make_topic(2, prefix="changing")
    return Stream(official, broker.bootstrap, topic, tmp_path / "checkpoint")


def read(stream: Stream, connector: str) -> list[str]:
    return stream.run(connector, startingOffsets="earliest")


@pytest.mark.parametrize("first", [OFFICIAL, OURS])
def test_a_query_goes_to_the_other_connector_and_back(stream: Stream, first: str) -> None:
    stream.write("a", "b")
    assert read(stream, first) == ["a", "b"]
    connectors = [OURS, OFFICIAL, OURS, OFFICIAL] if first == OFFICIAL else [OFFICIAL, OURS]
    for number, connector in enumerate(connectors):
        if connector == OFFICIAL:
            assert rewrite(stream.checkpoint) > 0
        stream.write(f"c{number}")
        stream.write(f"d{number}", partition=1)
        assert read(stream, connector) == [f"c{number}", f"d{number}"]
        assert read(stream, connector) == []


@pytest.mark.parametrize("batch_id", [0, 1])
def test_the_official_connector_repeats_a_batch_of_ours(stream: Stream, batch_id: int) -> None:
    for number in range(batch_id + 1):
        stream.write(f"v{number}")
        assert read(stream, OURS) == [f"v{number}"]
    # As if the driver had died before it marked the last batch as done.
    (stream.checkpoint / "commits" / str(batch_id)).unlink()
    (stream.checkpoint / "commits" / f".{batch_id}.crc").unlink()
    rewrite(stream.checkpoint)
    stream.write("new")
    stream.batches.clear()
    assert read(stream, OFFICIAL) == ["new", f"v{batch_id}"]
    assert stream.batches == {batch_id: [f"v{batch_id}"], batch_id + 1: ["new"]}
