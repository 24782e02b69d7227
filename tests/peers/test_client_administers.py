"""Our admin client and our blocking API, on Apache Kafka and on our broker."""

from __future__ import annotations

import pytest
import trio

import minikafka_client as mk
from minikafka_client import sync
from minikafka_client.producer_options import CompressionType
from tests.interop.clients import CONFLUENT, Outgoing, consume, produce
from tests.kit.wire import MakeTopic

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


async def test_topics(bootstrap: str, name: str) -> None:
    async with mk.AdminClient(bootstrap) as admin:
        wanted = mk.NewTopic(name, 3, 1, {"retention.ms": "1234567"})
        assert (await admin.create_topics([wanted], validate_only=True))[name].name == name
        created = (await admin.create_topics([wanted]))[name]
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        with pytest.raises(mk.BrokerError, match="TOPIC_ALREADY_EXISTS"):
            await admin.create_topics([wanted])
        # Apache Kafka's broker applies its controller's decisions a little later.
        with trio.fail_after(120):
            while name not in await admin.list_topics():
                pass
        await admin.create_partitions({name: 4})
        with trio.fail_after(120):
            described = (await admin.describe_topics([name]))[name]
            while len(described.partitions) < 4:
                described = (await admin.describe_topics([name]))[name]
        assert described.topic_id == created.topic_id
        assert [each.partition for each in described.partitions] == [0, 1, 2, 3]
        assert {each.leader for each in described.partitions} == {
            (await admin.describe_cluster()).brokers[0].node_id
        }
        with pytest.raises(mk.BrokerError, match="INVALID_PARTITIONS"):
            await admin.create_partitions({name: 2})
        with pytest.raises(mk.SomeFailedError) as some:
            await admin.delete_topics([name, f"{name}-none"])
        assert list(some.value.failed) == [f"{name}-none"]
        with trio.fail_after(120):
            while name in await admin.list_topics():
                pass
        with pytest.raises(mk.UnknownTopicError):
            await admin.describe_topics([name])


async def test_settings(bootstrap: str, make_topic: MakeTopic) -> None:
    resource = mk.ConfigResource.topic(make_topic(1, retention_ms=1111))
    async with mk.AdminClient(bootstrap) as admin:
        await admin.alter_configs(
            {
                resource: [
                    mk.ConfigChange("cleanup.policy", "compact", mk.ConfigOperation.APPEND),
                    mk.ConfigChange("retention.ms", None, mk.ConfigOperation.DELETE),
                    mk.ConfigChange("segment.ms", "2222"),
                ]
            }
        )
        with trio.fail_after(120):
            settings = (await admin.describe_configs([resource]))[resource]
            while settings["segment.ms"].is_default:
                settings = (await admin.describe_configs([resource]))[resource]
        assert settings["cleanup.policy"].value == "delete,compact"
        assert settings["retention.ms"].value == "604800000"
        assert settings["retention.ms"].is_default
        assert settings["segment.ms"].value == "2222"
        assert settings["segment.ms"].source is mk.ConfigSource.DYNAMIC_TOPIC_CONFIG
        with pytest.raises(mk.BrokerError, match="INVALID_CONFIG"):
            await admin.alter_configs({resource: [mk.ConfigChange("segment.ms", "soon")]})
        node_id = (await admin.describe_cluster()).brokers[0].node_id
        broker = mk.ConfigResource.broker(node_id)
        named = (await admin.describe_configs([broker], names=["num.partitions"]))[broker]
        assert {name: entry.value for name, entry in named.items()} == {"num.partitions": "1"}


async def test_records_offsets_and_directories(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    here, there = mk.TopicPartition(topic, 0), mk.TopicPartition(topic, 1)
    async with mk.Producer(bootstrap) as producer:
        for timestamp_ms in (1_600_000_000_000, 1_600_000_009_000, 1_600_000_003_000):
            await producer.send(topic, b"v" * 500, partition=0, timestamp_ms=timestamp_ms)
    async with mk.AdminClient(bootstrap) as admin:

        async def listed(spec: int) -> tuple[int, int]:
            found = await admin.list_offsets({here: spec, there: spec})
            return found[here].offset, found[there].offset

        assert await listed(mk.EARLIEST) == (0, 0)
        assert await listed(mk.LATEST) == (3, 0)
        assert await listed(mk.MAX_TIMESTAMP) == (1, -1)
        assert await listed(1_600_000_000_001) == (1, -1)
        (directory,) = await admin.describe_log_dirs()
        assert directory.size_bytes[here] > 1500
        assert directory.size_bytes[there] == 0
        assert await admin.delete_records({here: 2}) == {here: 2}
        assert await listed(mk.EARLIEST) == (2, 0)
        with pytest.raises(mk.BrokerError, match="OFFSET_OUT_OF_RANGE"):
            await admin.delete_records({here: 4})
        assert await admin.delete_records({here: -1}) == {here: 3}


def test_groups_and_the_blocking_face(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    here, there = mk.TopicPartition(topic, 0), mk.TopicPartition(topic, 1)
    produce(CONFLUENT, bootstrap, topic, [Outgoing(b"%d" % n) for n in range(5)])
    with sync.AdminClient(bootstrap) as admin:
        with sync.Consumer(
            bootstrap, group_id=topic, auto_offset_reset="earliest", client_id="only"
        ) as consumer:
            consumer.subscribe([topic])
            values: list[bytes | None] = []
            for record in consumer:
                values.append(record.value)
                if len(values) == 5:
                    break
            assert values == [b"%d" % n for n in range(5)]
            consumer.commit()
            assert topic in [each.group_id for each in admin.list_groups()]
            described = admin.describe_groups([topic])[topic]
            assert (described.state, described.assignor) == ("Stable", "range")
            (member,) = described.members
            assert member.client_id == "only"
            assert member.topics == (topic,)
            assert sorted(member.assignment) == [here, there]
            with pytest.raises(mk.BrokerError, match="NON_EMPTY_GROUP"):
                admin.delete_groups([topic])
            with pytest.raises(mk.BrokerError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
                admin.delete_group_offsets(topic, [here])
            with pytest.raises(mk.KafkaError):
                admin.alter_group_offsets(topic, {here: 1})
        assert admin.describe_groups([topic])[topic].state == "Empty"
        assert admin.list_group_offsets(topic)[here].offset == 5
        admin.alter_group_offsets(topic, {here: 1})
        admin.delete_group_offsets(topic, [there])
        assert {p: each.offset for p, each in admin.list_group_offsets(topic).items()} == {here: 1}
        admin.delete_groups([topic])
        assert admin.describe_groups([topic])[topic].state == "Dead"
        with pytest.raises(mk.BrokerError, match="GROUP_ID_NOT_FOUND"):
            admin.delete_groups([topic])


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_blocking_producer(bootstrap: str, topic: str, compression: CompressionType) -> None:
    values = [b"%d" % number for number in range(2_000)]
    with sync.Producer(bootstrap, compression_type=compression) as producer:
        deliveries = producer.send_many(topic, values)
        assert [each.result(60).offset for each in deliveries] == list(range(2_000))
    received = consume(CONFLUENT, bootstrap, topic, 2_000)
    assert [one.value for one in received] == values
