"""The admin client, trio and blocking, against our broker."""

from __future__ import annotations

import pytest

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from minikafka_client import sync as blocking
from tests.client.trio_api.topics import NewName


async def test_a_topic_lives_and_dies(bootstrap: str, name: str) -> None:
    async with mk.AdminClient(bootstrap) as admin:
        created = await admin.create_topics([mk.NewTopic(name, 3, 1, {"retention.ms": "1000"})])
        assert (created[name].num_partitions, created[name].replication_factor) == (3, 1)
        assert name in await admin.list_topics()
        described = await admin.describe_topics([name])
        assert [each.partition for each in described[name].partitions] == [0, 1, 2]
        assert described[name].topic_id == created[name].topic_id
        await admin.create_partitions({name: 5})
        assert len((await admin.describe_topics([name]))[name].partitions) == 5
        await admin.delete_topics([name])
        assert name not in await admin.list_topics()
        with pytest.raises(mk.UnknownTopicError, match=f"topic '{name}'"):
            await admin.describe_topics([name])


async def test_each_of_several_topics_is_created_or_not(bootstrap: str, new_name: NewName) -> None:
    there, new = new_name(), new_name()
    async with mk.AdminClient(bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(there)])
        with pytest.raises(mk.SomeFailedError, match="1 of 2 failed") as caught:
            await admin.create_topics([mk.NewTopic(there), mk.NewTopic(new)])
        assert list(caught.value.succeeded) == [new]
        assert caught.value.failed[there].code is ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(mk.BrokerError, match="TOPIC_ALREADY_EXISTS"):
            await admin.create_topics([mk.NewTopic(there)])


async def test_validate_only_creates_nothing(bootstrap: str, name: str) -> None:
    async with mk.AdminClient(bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(name, 2)], validate_only=True)
        assert name not in await admin.list_topics()


async def test_assigned_replicas_replace_the_counts(bootstrap: str, name: str) -> None:
    async with mk.AdminClient(bootstrap) as admin:
        node = (await admin.describe_cluster()).brokers[0].node_id
        topic = mk.NewTopic(name, replica_assignments={0: [node], 1: [node]})
        await admin.create_topics([topic])
        described = await admin.describe_topics([name])
        assert [p.replicas for p in described[name].partitions] == [(node,), (node,)]


async def test_configs_are_described_and_changed(bootstrap: str, name: str) -> None:
    resource = mk.ConfigResource.topic(name)
    async with mk.AdminClient(bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(name)])
        before = (await admin.describe_configs([resource]))[resource]
        assert before["cleanup.policy"].is_default
        await admin.alter_configs(
            {
                resource: [
                    mk.ConfigChange("cleanup.policy", "compact"),
                    mk.ConfigChange("segment.bytes", "2048"),
                ]
            }
        )
        after = await admin.describe_configs([resource], names=["cleanup.policy", "segment.bytes"])
        assert {n: e.value for n, e in after[resource].items()} == {
            "cleanup.policy": "compact",
            "segment.bytes": "2048",
        }
        assert after[resource]["cleanup.policy"].source is mk.ConfigSource.DYNAMIC_TOPIC_CONFIG
        back = mk.ConfigChange("cleanup.policy", None, mk.ConfigOperation.DELETE)
        await admin.alter_configs({resource: [back]})
        again = (await admin.describe_configs([resource]))[resource]
        assert again["cleanup.policy"].is_default
        with pytest.raises(mk.BrokerError, match="INVALID_CONFIG"):
            await admin.alter_configs({resource: [mk.ConfigChange("no.such.setting", "1")]})


async def test_a_brokers_own_configs_are_asked_of_it(bootstrap: str) -> None:
    async with mk.AdminClient(bootstrap) as admin:
        node = (await admin.describe_cluster()).brokers[0].node_id
        resource = mk.ConfigResource.broker(node)
        assert "num.partitions" in (await admin.describe_configs([resource]))[resource]


async def test_offsets_and_records(bootstrap: str, name: str) -> None:
    where, other = mk.TopicPartition(name, 0), mk.TopicPartition(name, 1)
    async with mk.AdminClient(bootstrap) as admin, mk.Producer(bootstrap) as producer:
        await admin.create_topics([mk.NewTopic(name, 2)])
        for number in range(5):
            await producer.send(name, b"v", partition=0, timestamp_ms=1_000 + number)
        await producer.flush()
        offsets = await admin.list_offsets({where: mk.LATEST, other: mk.EARLIEST})
        assert (offsets[where].offset, offsets[other].offset) == (5, 0)
        by_time = await admin.list_offsets({where: 1_002})
        assert by_time[where][:2] == (2, 1_002)
        assert (await admin.list_offsets({where: 9_999}))[where].offset == -1
        assert (await admin.list_offsets({where: mk.MAX_TIMESTAMP}))[where].offset == 4
        assert await admin.delete_records({where: 3}) == {where: 3}
        assert (await admin.list_offsets({where: mk.EARLIEST}))[where].offset == 3
        with pytest.raises(mk.BrokerError, match="OFFSET_OUT_OF_RANGE"):
            await admin.delete_records({where: 100})
        with pytest.raises(mk.UnknownTopicError):
            await admin.list_offsets({mk.TopicPartition(name, 7): mk.LATEST})


async def test_group_offsets_are_set_listed_and_deleted(bootstrap: str, new_name: NewName) -> None:
    name, group = new_name(), new_name()
    first, second = mk.TopicPartition(name, 0), mk.TopicPartition(name, 1)
    async with mk.AdminClient(bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(name, 2)])
        assert await admin.list_group_offsets(group) == {}
        await admin.alter_group_offsets(
            group, {first: 7, second: mk.OffsetAndMetadata(9, "note", 0)}
        )
        assert (await admin.list_group_offsets(group))[second] == mk.OffsetAndMetadata(9, "note", 0)
        assert (await admin.list_group_offsets(group, [first]))[first].offset == 7
        assert group in [each.group_id for each in await admin.list_groups()]
        assert (await admin.describe_groups([group]))[group].state == "Empty"
        await admin.delete_group_offsets(group, [first])
        assert list(await admin.list_group_offsets(group)) == [second]
        await admin.delete_groups([group])
        assert (await admin.describe_groups([group]))[group].state == "Dead"
        with pytest.raises(mk.BrokerError, match="GROUP_ID_NOT_FOUND"):
            await admin.delete_groups([group])


async def test_log_dirs_have_sizes(bootstrap: str, name: str) -> None:
    async with mk.AdminClient(bootstrap) as admin, mk.Producer(bootstrap) as producer:
        await admin.create_topics([mk.NewTopic(name)])
        await (await producer.send(name, bytes(1_000)))
        [directory] = await admin.describe_log_dirs()
        assert directory.size_bytes[mk.TopicPartition(name, 0)] > 1_000
        assert directory.total_bytes > directory.usable_bytes > 0


async def test_outside_its_block_it_is_closed(bootstrap: str) -> None:
    admin = mk.AdminClient(bootstrap)
    with pytest.raises(mk.ClosedError, match="inside its"):
        await admin.list_topics()
    async with admin:
        await admin.list_topics()
    with pytest.raises(mk.ClosedError, match="opened before"):
        async with admin:
            pass


async def test_what_the_block_raises_comes_out_as_it_is(bootstrap: str) -> None:
    async def fail_inside() -> None:
        async with mk.AdminClient(bootstrap) as admin:
            await admin.list_topics()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()


def test_the_blocking_api_does_the_same(bootstrap: str, new_name: NewName) -> None:
    name, group = new_name(), new_name()
    where = mk.TopicPartition(name, 0)
    with blocking.AdminClient(bootstrap) as admin:
        admin.create_topics([mk.NewTopic(name, 2)])
        assert name in admin.list_topics()
        assert len(admin.describe_topics([name])[name].partitions) == 2
        assert admin.list_offsets({where: mk.LATEST})[where].offset == 0
        admin.alter_group_offsets(group, {where: 0})
        assert admin.list_group_offsets(group) == {where: mk.OffsetAndMetadata(0, "", -1)}
        assert admin.describe_cluster().brokers
        with pytest.raises(mk.UnknownTopicError):
            admin.delete_topics([new_name()])
    with pytest.raises(mk.ClosedError):
        admin.list_topics()


def test_no_broker_is_a_clear_error() -> None:
    with (
        blocking.AdminClient("127.0.0.1:1", default_api_timeout_ms=200) as admin,
        pytest.raises(mk.BrokerError.__mro__[1], match=r"cannot connect to 127\.0\.0\.1:1"),
    ):
        admin.list_topics()


async def test_quotas_are_set_described_and_removed(name: str, bootstrap: str) -> None:
    both = mk.QuotaEntity(user=name, client_id=mk.DEFAULT_ENTITY)
    alone = mk.QuotaEntity(user=name)
    limits = {"consumer_byte_rate": 5e9}
    async with mk.AdminClient(bootstrap) as admin:
        await admin.alter_client_quotas({both: limits, alone: limits})
        assert await admin.describe_client_quotas(alone) == {both: limits, alone: limits}
        assert await admin.describe_client_quotas(alone, strict=True) == {alone: limits}
        with pytest.raises(mk.SomeFailedError, match="default client-id: INVALID_REQUEST"):
            await admin.alter_client_quotas(
                {both: {"speed": 1.0}, alone: {"consumer_byte_rate": None}}
            )
        assert await admin.describe_client_quotas(both) == {both: limits}
        await admin.alter_client_quotas({both: dict.fromkeys(limits)}, validate_only=True)
        assert await admin.describe_client_quotas(alone) == {both: limits}
        await admin.alter_client_quotas({both: dict.fromkeys(limits)})
        assert await admin.describe_client_quotas(alone) == {}


def test_the_blocking_client_knows_quotas(name: str, bootstrap: str) -> None:
    entity = mk.QuotaEntity(ip=mk.DEFAULT_ENTITY)
    with blocking.AdminClient(bootstrap) as admin:
        with pytest.raises(mk.BrokerError, match=r"default ip: INVALID_REQUEST.*Unknown quota"):
            admin.alter_client_quotas({entity: {"producer_byte_rate": 1.0}})
        assert admin.describe_client_quotas(entity) == {}
