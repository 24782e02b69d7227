"""librdkafka's AdminClient against our broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import admin as rd
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.interop

# The module's stubs export nothing but the client; but these names are documented.
_names: Any = rd
AlterConfigOpType = _names.AlterConfigOpType
ConfigEntry = _names.ConfigEntry
ConfigResource = _names.ConfigResource
ConfigSource = _names.ConfigSource
NewPartitions = _names.NewPartitions
NewTopic = _names.NewTopic
OffsetSpec = _names.OffsetSpec
ResourceType = _names.ResourceType

TIMEOUT = 20


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    wanted = NewTopic(topic, partitions, 1, config=settings)
    for future in admin.create_topics([wanted], operation_timeout=TIMEOUT).values():
        assert future.result(TIMEOUT) is None


def produce(bootstrap: str, topic: str, *values: bytes, timestamp: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=0, timestamp=timestamp)
        assert producer.flush(TIMEOUT) == 0
        timestamp += 10


def refused(future: Any) -> int:
    """The code of an error that has a message."""
    with pytest.raises(KafkaException) as caught:
        future.result(TIMEOUT)
    error = caught.value.args[0]
    assert error.str()
    code: int = error.code()
    return code


def test_topics_are_created_listed_described_and_deleted(admin: AdminClient, name: str) -> None:
    create(admin, name, 3, retention_ms="5000")
    listed = admin.list_topics(name, timeout=TIMEOUT).topics[name]
    assert sorted(listed.partitions) == [0, 1, 2]
    for future in admin.delete_topics([name], operation_timeout=TIMEOUT).values():
        assert future.result(TIMEOUT) is None
    assert name not in admin.list_topics(timeout=TIMEOUT).topics
    for future in admin.delete_topics([name]).values():
        assert refused(future) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic("no spaces", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("wrong", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
    ],
)
def test_invalid_topics_are_refused(admin: AdminClient, wanted: Any, code: int) -> None:
    (future,) = admin.create_topics([wanted]).values()
    assert refused(future) == code


def test_a_topic_with_an_assignment_is_validated_and_created(admin: AdminClient, name: str) -> None:
    wanted = NewTopic(name, 2, replica_assignment=[[1], [1]])
    (future,) = admin.create_topics([wanted], validate_only=True).values()
    future.result(TIMEOUT)
    assert name not in admin.list_topics(timeout=TIMEOUT).topics
    (future,) = admin.create_topics([wanted]).values()
    future.result(TIMEOUT)
    assert len(admin.list_topics(timeout=TIMEOUT).topics[name].partitions) == 2
    (future,) = admin.create_topics([wanted]).values()
    assert refused(future) == KafkaError.TOPIC_ALREADY_EXISTS


def test_partitions_are_added(admin: AdminClient, name: str) -> None:
    create(admin, name)
    (future,) = admin.create_partitions([NewPartitions(name, 4)]).values()
    assert future.result(TIMEOUT) is None
    assert len(admin.list_topics(name, timeout=TIMEOUT).topics[name].partitions) == 4
    (future,) = admin.create_partitions([NewPartitions(name, 2)]).values()
    assert refused(future) == KafkaError.INVALID_PARTITIONS


def described(admin: AdminClient, resource: Any) -> dict[str, Any]:
    (future,) = admin.describe_configs([resource]).values()
    found: dict[str, Any] = future.result(TIMEOUT)
    return found


def test_settings_are_described_and_altered(admin: AdminClient, name: str) -> None:
    create(admin, name, retention_ms="5000")
    resource = ConfigResource(ResourceType.TOPIC, name)
    before = described(admin, resource)
    assert before["retention.ms"].value == "5000"
    assert before["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert before["segment.ms"].is_default
    operations = [
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
        ("retention.ms", None, AlterConfigOpType.DELETE),
        ("max.message.bytes", "2000", AlterConfigOpType.SET),
    ]
    wanted = ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=operation)
            for name, value, operation in operations
        ],
    )
    (future,) = admin.incremental_alter_configs([wanted]).values()
    future.result(TIMEOUT)
    after = described(admin, resource)
    assert after["cleanup.policy"].value == "delete,compact"
    assert after["max.message.bytes"].value == "2000"
    assert after["retention.ms"].is_default


def test_a_broker_describes_itself_and_refuses_to_change_fixed_settings(admin: AdminClient) -> None:
    (broker_id,) = admin.list_topics(timeout=TIMEOUT).brokers
    entries = described(admin, ConfigResource(ResourceType.BROKER, str(broker_id)))
    assert entries["node.id"].value == str(broker_id)
    assert entries["node.id"].is_read_only
    assert not entries["log.retention.ms"].is_read_only
    fixed = ConfigEntry("num.partitions", "7", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.BROKER, str(broker_id), incremental_configs=[fixed])
    (future,) = admin.incremental_alter_configs([wanted]).values()
    assert refused(future) == KafkaError.INVALID_REQUEST


def test_an_unknown_topic_has_no_settings(admin: AdminClient) -> None:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "nowhere")]).values()
    assert refused(future) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_offsets_are_listed_by_end_time_and_largest_timestamp(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    create(admin, name)
    produce(bootstrap, name, b"a", b"b", b"c", timestamp=1000)
    partition = TopicPartition(name, 0)
    for spec, expected in [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 3),
        (OffsetSpec.for_timestamp(1005), 1),
        (OffsetSpec.for_timestamp(5000), -1),
        (OffsetSpec.max_timestamp(), 2),
    ]:
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            (future,) = admin.list_offsets({partition: spec}, isolation_level=isolation).values()
            assert future.result(TIMEOUT).offset == expected


def test_records_are_deleted(admin: AdminClient, bootstrap: str, name: str) -> None:
    create(admin, name)
    produce(bootstrap, name, b"a", b"b", b"c")
    (future,) = admin.delete_records([TopicPartition(name, 0, 2)]).values()
    assert future.result(TIMEOUT).low_watermark == 2
    (future,) = admin.list_offsets({TopicPartition(name, 0): OffsetSpec.earliest()}).values()
    assert future.result(TIMEOUT).offset == 2
    (future,) = admin.delete_records([TopicPartition(name, 0, 9)]).values()
    assert refused(future) == KafkaError.OFFSET_OUT_OF_RANGE


def test_the_cluster_is_described(admin: AdminClient, bootstrap: str) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT)
    assert [f"{node.host}:{node.port}" for node in found.nodes] == [bootstrap]
    assert found.controller.id == found.nodes[0].id
    assert len(found.authorized_operations) == 7
    assert found.cluster_id == admin.list_topics(timeout=TIMEOUT).cluster_id


def test_an_idempotent_producer_gets_its_id(bootstrap: str, name: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(name, b"a")
    assert producer.flush(TIMEOUT) == 0


def test_offsets_of_an_unknown_group_are_not_an_error(admin: AdminClient, name: str) -> None:
    create(admin, name)
    asked = ConsumerGroupTopicPartitions("no-such-group", [TopicPartition(name, 0)])
    (future,) = admin.list_consumer_group_offsets([asked]).values()
    (found,) = future.result(TIMEOUT).topic_partitions
    assert found.offset < 0
