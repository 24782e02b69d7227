"""Brokers are killed at every step of a batch, and others take over; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from minikafka import testing
from minikafka_client.sync import AdminClient
from minikafka_client.types import NewTopic
from pyspark_minikafka.options import Options
from pyspark_minikafka.sink import protocol
from pyspark_minikafka.sink.input_schema import InputColumns
from pyspark_minikafka.sink.kafka import RealDriverKafka, RealTaskKafka, transactional_id
from pyspark_minikafka.sink.protocol import Place, Result
from pyspark_minikafka.sink.settings import SinkSettings, stream_settings
from tests.kit.live import check_logs
from tests.spark.sink.reading import values

QUERY = "query"
PARTITIONS = 3
ROWS = 30

Kill = Callable[[], None]


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[testing.Cluster]:
    settings = {
        "transaction.two.phase.commit.enable": "true",
        "transaction.state.log.num.partitions": "3",
        "min.insync.replicas": "2",
    }
    with testing.cluster(3, settings, directory=tmp_path / "cluster") as running:
        yield running


def batches(batch_id: int, task: int, kill: Kill | None) -> Iterator[pa.RecordBatch]:
    for number in range(ROWS):
        if kill is not None and number == ROWS // 2:
            kill()
        row = f"{batch_id}-{task}-{number:02}"
        yield pa.RecordBatch.from_arrays(
            [pa.array([row]), pa.array([number % PARTITIONS], pa.int32())],
            names=["value", "partition"],
        )


def run_task(settings: SinkSettings, batch_id: int, task: int, kill: Kill | None = None) -> Result:
    unique = transactional_id(settings.sink_id, QUERY, f"{batch_id}-{task}")
    place = Place(QUERY, "run", batch_id, task, 0, unique)
    with RealTaskKafka(settings, InputColumns(value=0, partition=1)) as kafka:
        return protocol.run_task(kafka, place, batches(batch_id, task, kill))


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_batches_are_seen_once_if_brokers_die(cluster: testing.Cluster) -> None:
    with AdminClient(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("rows", PARTITIONS, 3)])
    settings = stream_settings(
        Options({"kafka.bootstrap.servers": cluster.bootstrap, "topic": "rows"})
    )
    written: list[str] = []
    for batch_id, step in enumerate(("calm", "writing", "prepared", "recorded")):
        victim = max(batch_id, 1)

        def kill(victim: int = victim) -> None:
            cluster.kill(victim)

        results = [
            run_task(settings, batch_id, task, kill if step == "writing" and task else None)
            for task in range(2)
        ]
        if step == "prepared":
            kill()
        if step == "recorded":
            with RealDriverKafka(settings) as kafka:
                kafka.claim(QUERY).record(protocol.record_of(batch_id, results, None))
            kill()
        with RealDriverKafka(settings) as kafka:
            protocol.commit(kafka, batch_id, results)
        written += [f"{batch_id}-{task}-{n:02}" for task in range(2) for n in range(ROWS)]
        if step != "calm":
            cluster.start(victim)
        assert values(cluster.bootstrap, "rows") == sorted(written)
    with AdminClient(cluster.bootstrap) as admin:
        assert admin.list_transactions(states=["Ongoing"]) == []
    check_logs(cluster)
