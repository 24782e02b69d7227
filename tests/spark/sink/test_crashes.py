"""Workers and drivers are killed at every step of a batch; a restart loses and repeats nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from minikafka.testing import Broker
from minikafka_client.sync import AdminClient
from tests.spark.sink.reading import values
from tests.spark.sink.test_spark_write import start, write_texts
from tests.spark.sink.trapped_source import STEPS, TrappedSource, pickle_by_value

ROOT = Path(__file__).parents[3]
IS_CAMPAIGN = bool(os.environ.get("MINIKAFKA_SPARK_CRASHES"))
"""MINIKAFKA_SPARK_CRASHES=1 kills at every step, with a JVM for each, which takes minutes."""

WORKER_STEPS = sorted(STEPS) if IS_CAMPAIGN else ["written", "in-doubt", "recorded"]
JVM_STEPS = sorted(STEPS) if IS_CAMPAIGN else ["half-committed"]

PATIENCE_S = 500

MakeTopic = Callable[..., str]


class Scene:
    """A stream of text files on its way to a topic."""

    def __init__(
        self,
        spark: SparkSession,
        broker: Broker,
        topic: str,
        folder: Path,
        admin: AdminClient,
    ) -> None:
        self.topic = topic
        self.texts = folder / "in"
        self.checkpoint = folder / "checkpoint"
        self._spark = spark
        self._broker = broker
        self._admin = admin
        self.lines = [f"{file}-{number}" for file in range(4) for number in range(50)]
        for file in range(4):
            write_texts(self.texts, file, *self.lines[file * 50 : file * 50 + 50])

    def recover(self) -> None:
        """Start the query again, without the trap, and wait for the lines."""
        rows = self._spark.readStream.text(str(self.texts))
        for more in ([], ["last"]):
            if more:  # what was left open is ended with the next batch at the latest
                write_texts(self.texts, 4, *more)
            query = start(rows, self._broker, self.checkpoint, topic=self.topic)
            assert query.exception() is None
            assert values(self._broker.bootstrap, self.topic) == sorted([*self.lines, *more])
        assert self._admin.list_transactions(states=["Ongoing"]) == []


@pytest.fixture
def scene(
    spark: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    admin: AdminClient,
    tmp_path: Path,
) -> Scene:
    return Scene(spark, broker, make_topic(3), tmp_path, admin)


@pytest.mark.parametrize("step", WORKER_STEPS)
def test_a_batch_is_seen_once_if_a_worker_is_killed(
    scene: Scene, spark: SparkSession, broker: Broker, step: str
) -> None:
    pickle_by_value()
    spark.dataSource.register(TrappedSource)
    query = (
        spark.readStream.text(str(scene.texts))
        .writeStream.format("trapped")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", scene.topic)
        .option("step", step)
        .option("victim", "worker")
        .option("checkpointLocation", str(scene.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    scene.recover()


@pytest.mark.timeout(PATIENCE_S + 100)
@pytest.mark.parametrize("step", JVM_STEPS)
def test_a_batch_is_seen_once_if_its_driver_is_killed(
    scene: Scene, broker: Broker, tmp_path: Path, step: str
) -> None:
    paths = scene.texts, scene.checkpoint, tmp_path / "spark"
    killed = subprocess.run(
        [
            *(sys.executable, "-m", "tests.spark.sink.killed_driver"),
            *(broker.bootstrap, scene.topic, *map(str, paths), step),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert killed.returncode != 0, killed.stderr
    assert (scene.checkpoint / "offsets" / "0").exists(), killed.stderr
    assert not (scene.checkpoint / "commits" / "0").exists(), killed.stderr
    scene.recover()
