"""kafka-python's KafkaAdminClient against our broker."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewTopic,
    OffsetSpec,
)
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    LogDirNotFoundError,
    NoError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import TopicPartitionReplica

pytestmark = pytest.mark.interop


@pytest.fixture
def admin(bootstrap: str) -> Generator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number, value in enumerate(values):
        producer.send(topic, value, partition=0, timestamp_ms=1000 + 10 * number).get(20)
    producer.close()


def test_topics_are_created_described_and_deleted(admin: Any, name: str) -> None:
    made = admin.create_topics([NewTopic(name, 3, 1, topic_configs={"retention.ms": "5000"})])
    (result,) = made["topics"]
    assert (result["num_partitions"], result["replication_factor"]) == (3, 1)
    assert result["configs"]["retention.ms"]["value"] == "5000"
    (described,) = admin.describe_topics([name])
    assert described["topic_id"] == result["topic_id"]
    assert [one["partition_index"] for one in described["partitions"]] == [0, 1, 2]
    assert len(described["authorized_operations"]) == 8
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, 3, 1)])
    admin.delete_topics([name])
    assert name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def test_topics_are_described_page_by_page(admin: Any, name: str) -> None:
    names = [f"{name}-{letter}" for letter in "ab"]
    admin.create_topics([NewTopic(name, 3, 1) for name in names])
    cursor = None
    found: list[tuple[str, int]] = []
    for _ in range(3):
        page = admin.describe_topic_partitions(names, response_partition_limit=2, cursor=cursor)
        found += [
            (one["name"], partition["partition_index"])
            for one in page["topics"]
            for partition in one["partitions"]
        ]
        cursor = page["next_cursor"]
    assert cursor is None
    assert found == [(name, number) for name in names for number in range(3)]


def test_partitions_are_added(admin: Any, name: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1)])
    admin.create_partitions({name: {"count": 2, "assignments": [[1]]}})
    admin.create_partitions({name: 4})
    (described,) = admin.describe_topics([name])
    assert len(described["partitions"]) == 4
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({name: 3})


def settings_of(admin: Any, resource: ConfigResource, config_filter: str) -> dict[str, Any]:
    found = admin.describe_configs([resource], config_filter=config_filter)
    settings: dict[str, Any] = found[resource.resource_type.name.lower()][resource.name]
    return settings


@pytest.mark.parametrize("incremental", [True, False])
def test_settings_are_altered_with_both_apis(admin: Any, name: str, incremental: bool) -> None:
    admin.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "5000"})])
    wanted = ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": "2000"})
    admin.alter_configs([wanted], incremental=incremental)
    modified = settings_of(admin, ConfigResource(ConfigResourceType.TOPIC, name), "modified")
    values = {name: one["value"] for name, one in modified.items()}
    assert values == {"retention.ms": "5000", "max.message.bytes": "2000"}


def test_lists_are_appended_to(admin: Any, name: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1)])
    change = {"cleanup.policy": (AlterConfigOp.APPEND, "compact")}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, change)])
    modified = settings_of(admin, ConfigResource(ConfigResourceType.TOPIC, name), "modified")
    assert modified["cleanup.policy"]["value"] == "delete,compact"


def test_invalid_settings_are_refused(admin: Any, name: str) -> None:
    with pytest.raises(InvalidConfigurationError):
        admin.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "soon"})])
    assert name not in admin.list_topics()


def test_a_broker_describes_itself(admin: Any) -> None:
    (broker,) = admin.describe_cluster()["brokers"]
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker["broker_id"]))
    settings = settings_of(admin, resource, "all")
    assert settings["node.id"]["value"] == str(broker["broker_id"])
    assert settings["node.id"]["read_only"] is True
    assert "log.retention.ms" in settings


def test_offsets_are_listed_and_records_deleted(admin: Any, bootstrap: str, name: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1)])
    produce(bootstrap, name, b"a", b"b", b"c")
    partition = TopicPartition(name, 0)
    for spec, expected in [
        (OffsetSpec.EARLIEST, 0),
        (OffsetSpec.LATEST, 3),
        (OffsetSpec.MAX_TIMESTAMP, 2),
        (OffsetSpec.EARLIEST_LOCAL, 0),
        (1005, 1),
    ]:
        found = admin.list_partition_offsets({partition: spec})
        assert found[partition].offset == expected
    deleted = admin.delete_records({partition: 1})
    assert deleted[partition]["low_watermark"] == 1
    assert admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 1
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 7})


def test_the_log_directory_and_producers_are_described(
    admin: Any, bootstrap: str, name: str
) -> None:
    admin.create_topics([NewTopic(name, 2, 1)])
    produce(bootstrap, name, b"x" * 1000)
    ((described,),) = (one["log_dirs"] for one in admin.describe_log_dirs({name: [0, 1]}))
    (shown,) = described["topics"]
    empty = {"partition_size": 0, "offset_lag": 0, "is_future_key": False}
    assert shown["name"] == name
    assert shown["partitions"][0]["partition_size"] > 1000
    assert shown["partitions"][1] == {"partition_index": 1, **empty}
    for path, error in ((described["log_dir"], NoError), ("/elsewhere", LogDirNotFoundError)):
        replica = TopicPartitionReplica(name, 1, 1)
        assert admin.alter_replica_log_dirs({replica: path}) == {replica: error}
    (producer,) = admin.describe_producers([TopicPartition(name, 0)]).values()
    assert [one.producer_epoch for one in producer.active_producers] == [0]


def test_config_resources_are_listed(admin: Any, name: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1)])
    (broker,) = admin.describe_cluster()["brokers"]
    found = admin.list_config_resources()
    assert name in found["topic"]
    assert found["broker"] == found["broker_logger"] == [str(broker["broker_id"])]
    assert admin.list_config_resources(["GROUP"]) == {}


def test_the_log_levels_of_a_broker_can_be_changed(admin: Any) -> None:
    (broker,) = admin.describe_cluster()["brokers"]
    name = str(broker["broker_id"])
    wanted = {"minikafka.broker.control.controller": "DEBUG"}
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, name, wanted)
    admin.alter_configs([resource])
    levels = settings_of(admin, ConfigResource(ConfigResourceType.BROKER_LOGGER, name), "all")
    assert levels["minikafka.broker.control.controller"]["value"] == "DEBUG"
