"""The driver knows how large records are, and divides them among tasks accordingly."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.testing import Broker
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import BrokerError
from minikafka_client.plans.plan import Pause, Plan
from minikafka_client.sync import AdminClient, Writer
from minikafka_client.types import TopicPartition
from pyspark_minikafka import lookups, record_sizes
from pyspark_minikafka.batch_reader import BatchReader
from pyspark_minikafka.options import Options
from pyspark_minikafka.ranges import GUESSED_RECORD_SIZE_BYTES, OffsetRange
from pyspark_minikafka.schemas import read_schema
from pyspark_minikafka.source_options import batch_options
from tests.spark.conftest import MakeTopic


def tasks_of(broker: Broker, topic: str) -> list[tuple[OffsetRange, ...]]:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    options = batch_options(Options({**given, "minRecordsPerTask": "100"}))
    return [each.value for each in BatchReader(options, read_schema(options)).partitions()]


def write(broker: Broker, topic: str, records: int, size_bytes: int) -> None:
    with Writer(broker.bootstrap) as writer:
        for number in range(records):
            writer.send(topic, bytes(size_bytes), partition=number % 2)


def test_partitions_of_large_records_do_not_share_a_task(
    broker: Broker, make_topic: MakeTopic
) -> None:
    small, large = make_topic(2), make_topic(2)
    write(broker, small, 20, 10)
    write(broker, large, 20, 20_000)
    [task] = tasks_of(broker, small)
    assert len(task) == 2
    assert all(each.record_size_bytes < GUESSED_RECORD_SIZE_BYTES for each in task)
    tasks = tasks_of(broker, large)
    assert len(tasks) == 2
    assert all(20_000 <= each.record_size_bytes < 21_000 for [each] in tasks)


def test_deleted_records_do_not_count(
    broker: Broker, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    where = TopicPartition(topic, 0)
    assert admin.run_plan(lambda cluster: record_sizes.record_sizes(cluster, [where])) == {}
    with Writer(broker.bootstrap) as writer:
        for size_bytes in (10, 10, 20_000, 20_000):
            writer.send(topic, bytes(size_bytes))
            writer.flush()
    admin.delete_records({where: 2})
    sizes = admin.run_plan(lambda cluster: record_sizes.record_sizes(cluster, [where]))
    assert sizes[where] > 20_000


def test_a_broker_that_does_not_report_sizes_is_no_reason_to_fail(
    broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(cluster: Cluster, partitions: object) -> Plan[dict[TopicPartition, int]]:
        yield Pause(0)
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    monkeypatch.setattr(lookups, "record_sizes", refused)
    topic = make_topic(2)
    write(broker, topic, 20, 10)
    [task] = tasks_of(broker, topic)
    assert {each.record_size_bytes for each in task} == {GUESSED_RECORD_SIZE_BYTES}
