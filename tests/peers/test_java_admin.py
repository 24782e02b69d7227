"""The Java admin client on our broker (and, as a control, on its own)."""

from __future__ import annotations

import pytest

from tests.interop.clients import Outgoing
from tests.kit.waiting import work_until
from tests.kit.wire import MakeTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.java_clients import JavaClients, JavaError

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


def test_topics_are_created_described_grown_and_deleted(
    java: JavaClients, bootstrap: str, name: str
) -> None:
    created = java.admin(
        bootstrap,
        "create_topic",
        topic=name,
        partitions=2,
        configs={"retention.ms": "1234567", "cleanup.policy": "compact,delete"},
    )
    assert created["partitions"] == 2
    assert created["replication_factor"] == 1
    assert created["configs"]["retention.ms"] == "1234567"
    assert created["configs"]["cleanup.policy"] == "compact,delete"
    # Apache Kafka's broker applies its controller's decisions a little later.
    work_until(lambda: name in java.admin(bootstrap, "list_topics"), what="the topic")
    described = java.admin(bootstrap, "describe_topic", topic=name)
    leader = java.admin(bootstrap, "describe_cluster")["controller"]
    assert described == {
        "topic_id": created["topic_id"],
        "internal": False,
        "partitions": [[0, leader, 1, 1], [1, leader, 1, 1]],
    }
    java.admin(bootstrap, "create_partitions", topic=name, total=5)
    work_until(
        lambda: len(java.admin(bootstrap, "describe_topic", topic=name)["partitions"]) == 5,
        what="five partitions",
    )
    java.admin(bootstrap, "delete_topic", topic=name)
    work_until(lambda: name not in java.admin(bootstrap, "list_topics"), what="the deletion")
    again = java.admin(bootstrap, "create_topic", topic=name, partitions=1, configs={})
    assert again["topic_id"] != created["topic_id"]


@pytest.mark.parametrize(
    ("operation", "arguments", "error"),
    [
        ("create_topic", {"partitions": 1, "configs": {}}, "TopicExistsException"),
        ("create_partitions", {"total": 1}, "InvalidPartitionsException"),
    ],
)
def test_invalid_operations_on_a_topic(
    java: JavaClients,
    bootstrap: str,
    make_topic: MakeTopic,
    operation: str,
    arguments: dict[str, object],
    error: str,
) -> None:
    topic = make_topic(2)
    with pytest.raises(JavaError) as refused:
        java.admin(bootstrap, operation, topic=topic, **arguments)
    assert refused.value.name == error


@pytest.mark.parametrize(
    ("configs", "partitions", "error"),
    [
        ({"retention.ms": "soon"}, 1, "InvalidConfigurationException"),
        ({"no.such.setting": "1"}, 1, "InvalidConfigurationException"),
        ({}, 0, "InvalidPartitionsException"),
    ],
)
def test_invalid_topics_are_not_created(
    java: JavaClients,
    bootstrap: str,
    name: str,
    configs: dict[str, str],
    partitions: int,
    error: str,
) -> None:
    with pytest.raises(JavaError) as refused:
        java.admin(bootstrap, "create_topic", topic=name, partitions=partitions, configs=configs)
    assert refused.value.name == error


@pytest.mark.parametrize("operation", ["describe_topic", "delete_topic"])
def test_an_unknown_topic_is_an_error(
    java: JavaClients, bootstrap: str, name: str, operation: str
) -> None:
    with pytest.raises(JavaError) as refused:
        java.admin(bootstrap, operation, topic=name)
    assert refused.value.name == "UnknownTopicOrPartitionException"


def test_settings_are_read_and_changed(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1, retention_ms=1111)

    def settings() -> dict[str, list[str]]:
        found: dict[str, list[str]] = java.admin(
            bootstrap, "describe_config", type="TOPIC", of=topic
        )
        return found

    def wait_for(name: str, wanted: list[str]) -> None:
        work_until(lambda: settings()[name] == wanted, what=f"{name} to be {wanted}")

    assert settings()["retention.ms"] == ["1111", "DYNAMIC_TOPIC_CONFIG"]
    assert settings()["segment.bytes"] == ["1073741824", "DEFAULT_CONFIG"]
    changes = [
        ["retention.ms", "2222", "SET"],
        ["cleanup.policy", "compact", "APPEND"],
        ["segment.ms", "3333", "SET"],
    ]
    java.admin(bootstrap, "alter_config", type="TOPIC", of=topic, changes=changes)
    wait_for("segment.ms", ["3333", "DYNAMIC_TOPIC_CONFIG"])
    assert settings()["retention.ms"] == ["2222", "DYNAMIC_TOPIC_CONFIG"]
    assert settings()["cleanup.policy"] == ["delete,compact", "DYNAMIC_TOPIC_CONFIG"]
    changes = [["retention.ms", "", "DELETE"], ["cleanup.policy", "delete", "SUBTRACT"]]
    java.admin(bootstrap, "alter_config", type="TOPIC", of=topic, changes=changes)
    wait_for("retention.ms", ["604800000", "DEFAULT_CONFIG"])
    assert settings()["cleanup.policy"] == ["compact", "DYNAMIC_TOPIC_CONFIG"]
    for wrong in (["retention.ms", "soon", "SET"], ["no.such.setting", "1", "SET"]):
        with pytest.raises(JavaError) as refused:
            java.admin(bootstrap, "alter_config", type="TOPIC", of=topic, changes=[wrong])
        assert refused.value.name == "InvalidConfigurationException"


def test_our_topics_have_kafkas_settings_with_kafkas_defaults(
    java: JavaClients, ours: str, apache_kafka: ApacheKafka, name: str
) -> None:
    def settings(bootstrap: str) -> dict[str, str]:
        created = java.admin(bootstrap, "create_topic", topic=name, partitions=1, configs={})
        configs: dict[str, str] = created["configs"]
        return configs

    kafkas, of_ours = settings(apache_kafka.bootstrap), settings(ours)
    assert of_ours == kafkas


def test_a_brokers_settings_are_described(java: JavaClients, bootstrap: str) -> None:
    node = java.admin(bootstrap, "describe_cluster")["controller"]
    settings = java.admin(bootstrap, "describe_config", type="BROKER", of=str(node))
    assert settings["num.partitions"][0] == "1"
    assert settings["group.min.session.timeout.ms"] == ["1000", "STATIC_BROKER_CONFIG"]


def test_the_cluster_is_described(java: JavaClients, bootstrap: str) -> None:
    cluster = java.admin(bootstrap, "describe_cluster")
    assert cluster["brokers"] == [f"{cluster['controller']}={bootstrap}"]
    assert len(cluster["cluster_id"]) == 22


def test_offsets_are_listed_and_records_deleted(
    java: JavaClients, bootstrap: str, topic: str
) -> None:
    here = f"{topic}:0"
    start_ms = 1_600_000_000_000
    times = [start_ms, start_ms + 9_000, start_ms + 3_000]
    java.produce(bootstrap, topic, [Outgoing(b"v", timestamp_ms=time) for time in times])

    def listed(spec: str) -> list[int]:
        found: dict[str, list[int]] = java.admin(bootstrap, "list_offsets", specs={here: spec})
        return found[here]

    assert listed("earliest") == [0, -1]
    assert listed("latest") == [3, -1]
    assert listed("max_timestamp") == [1, start_ms + 9_000]
    assert listed(str(start_ms + 1)) == [1, start_ms + 9_000]
    assert listed(str(start_ms + 9_001)) == [-1, -1]
    assert java.admin(bootstrap, "delete_records", before={here: 2}) == {here: 2}
    assert listed("earliest") == [2, -1]
    with pytest.raises(JavaError) as refused:
        java.admin(bootstrap, "delete_records", before={here: 4})
    assert refused.value.name == "OffsetOutOfRangeException"
    assert java.admin(bootstrap, "delete_records", before={here: -1}) == {here: 3}


def test_log_directories_and_producers_are_described(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    java.produce(bootstrap, topic, [Outgoing(b"x" * 1000)] * 3, linger_ms=100)
    sizes = java.admin(bootstrap, "describe_log_dirs")
    assert sizes[f"{topic}:0"] > 3000
    assert sizes[f"{topic}:1"] == 0
    (producer,) = java.admin(bootstrap, "describe_producers", partition=f"{topic}:0")
    assert producer["last_sequence"] == 2


def test_groups_are_listed_described_moved_and_deleted(
    java: JavaClients, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    here, there = f"{topic}:0", f"{topic}:1"
    java.produce(bootstrap, topic, [Outgoing(b"v")] * 5)
    with java.consumer("only", bootstrap, group_id=topic, topics=[topic]) as consumer:
        consumer.poll_until(5)
        consumer.ask("commit")
        assert topic in java.admin(bootstrap, "list_groups")
        described = java.admin(bootstrap, "describe_group", group=topic)
        assert described["state"] == "Stable"
        assert described["assignor"] == "range"
        assert [each["partitions"] for each in described["members"]] == [[here, there]]
        for operation, arguments, error in [
            ("delete_group", {}, "GroupNotEmptyException"),
            ("alter_group_offsets", {"offsets": {here: 1}}, "UnknownMemberIdException"),
            ("delete_group_offsets", {"partitions": [here]}, "GroupSubscribedToTopicException"),
        ]:
            with pytest.raises(JavaError) as refused:
                java.admin(bootstrap, operation, group=topic, **arguments)  # type: ignore[arg-type]  # by name
            assert refused.value.name == error
    assert java.admin(bootstrap, "group_offsets", group=topic) == {here: 5, there: 0}
    java.admin(bootstrap, "alter_group_offsets", group=topic, offsets={here: 1})
    java.admin(bootstrap, "delete_group_offsets", group=topic, partitions=[there])
    assert java.admin(bootstrap, "group_offsets", group=topic) == {here: 1}
    java.admin(bootstrap, "delete_group", group=topic)
    assert topic not in java.admin(bootstrap, "list_groups")
    with pytest.raises(JavaError) as gone:
        java.admin(bootstrap, "describe_group", group=topic)
    assert gone.value.name == "GroupIdNotFoundException"
    with pytest.raises(JavaError) as gone:
        java.admin(bootstrap, "delete_group", group=topic)
    assert gone.value.name == "GroupIdNotFoundException"
