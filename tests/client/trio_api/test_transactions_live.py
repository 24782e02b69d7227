"""Transactional producers on trio, against our broker, with both transaction versions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions
from minikafka.testing import Broker
from minikafka_client.plans import transactions as plans
from tests.client.trio_api.topics import NewName, committed, new_topic


@pytest.fixture(params=[0, 2], autouse=True)
def transaction_version(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """The version that the producer finds: the broker agrees with both."""
    version: int = request.param
    found: list[int] = []

    def read(response: api_versions.Response) -> int:
        found.append(read_really(response))
        return min(version, found[-1])

    read_really = plans.read_transaction_version
    monkeypatch.setattr(plans, "read_transaction_version", read)
    yield version
    assert set(found) <= {2}


async def test_a_transaction_is_seen_as_a_whole(bootstrap: str, new_name: NewName) -> None:
    topic = await new_topic(bootstrap, new_name(), 3)
    async with mk.Producer(bootstrap, transactional_id=new_name()) as producer:
        async with producer.transaction():
            for number in range(6):
                await producer.send(topic, b"%d" % number, partition=number % 3)
            await producer.flush()
            assert await committed(bootstrap, topic, is_open=True) == []
        assert sorted(await committed(bootstrap, topic)) == [b"%d" % number for number in range(6)]
        async with producer.transaction():
            deliveries = await producer.send_many(topic, [b"a", b"b"])
        assert all(delivery.is_done for delivery in deliveries)
    assert len(await committed(bootstrap, topic)) == 8


async def test_an_exception_aborts_and_comes_out(bootstrap: str, topic: str, name: str) -> None:
    async with mk.Producer(bootstrap, transactional_id=name) as producer:
        deliveries: list[mk.Delivery] = []

        async def fail() -> None:
            async with producer.transaction():
                deliveries.append(await producer.send(topic, b"sent"))
                await producer.flush()
                deliveries.append(await producer.send(topic, b"unsent"))
                raise KeyError

        with pytest.raises(KeyError):
            await fail()
        sent, unsent = deliveries
        assert sent.error is None
        with pytest.raises(mk.TransactionAbortedError):
            await unsent
        async with producer.transaction():
            await producer.send(topic, b"again")
    assert await committed(bootstrap, topic) == [b"again"]


async def test_a_cancellation_aborts(bootstrap: str, topic: str, name: str) -> None:
    async with mk.Producer(bootstrap, transactional_id=name) as producer:
        with trio.CancelScope() as scope:
            async with producer.transaction():
                await producer.send(topic, b"never")
                await producer.flush()
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            async with producer.transaction():
                await producer.send(topic, b"never, either")
                scope.cancel()  # noticed by the commit
        assert scope.cancelled_caught
        async with producer.transaction():
            await producer.send(topic, b"again")
    assert await committed(bootstrap, topic) == [b"again"]


async def test_an_empty_transaction_is_none(bootstrap: str, topic: str, name: str) -> None:
    async with mk.Producer(bootstrap, transactional_id=name) as producer:
        async with producer.transaction():
            pass
        with pytest.raises(KeyError):
            async with producer.transaction():
                raise KeyError
        async with producer.transaction():
            await producer.send(topic, b"a")
    assert await committed(bootstrap, topic) == [b"a"]


async def test_nothing_is_sent_outside_and_nothing_nests(
    bootstrap: str, topic: str, name: str
) -> None:
    async with mk.Producer(bootstrap, transactional_id=name) as producer:
        with pytest.raises(mk.TransactionStateError, match="no transaction is open"):
            await producer.send(topic, b"a")
        with pytest.raises(mk.TransactionStateError, match="no transaction is open"):
            producer.send_nowait(topic, b"a")
        transaction = producer.transaction()
        with pytest.raises(mk.TransactionStateError, match="no transaction is open"):
            await transaction.send_offsets({mk.TopicPartition(topic, 0): 1}, "group")
        async with transaction:
            with pytest.raises(mk.TransactionStateError, match="do not nest"):
                async with producer.transaction():
                    raise AssertionError("never entered")
            await producer.send(topic, b"a")
        with pytest.raises(mk.TransactionStateError, match="no transaction is open"):
            await producer.send(topic, b"a")
    assert await committed(bootstrap, topic) == [b"a"]


async def test_a_producer_without_a_name_has_no_transactions(bootstrap: str) -> None:
    async with mk.Producer(bootstrap) as producer:
        with pytest.raises(ValueError, match="transactional_id"):
            producer.transaction()


async def test_a_delivery_that_fails_aborts_the_commit(bootstrap: str, new_name: NewName) -> None:
    topic = await new_topic(bootstrap, new_name(), 2, max_message_bytes="1000")
    async with mk.Producer(bootstrap, transactional_id=new_name()) as producer:
        deliveries: list[mk.Delivery] = []

        async def fail_unnoticed() -> None:
            async with producer.transaction():
                await (await producer.send(topic, b"small", partition=0))
                deliveries.append(await producer.send(topic, bytes(2_000), partition=1))

        with pytest.raises(mk.TransactionAbortedError) as caught:
            await fail_unnoticed()
        assert isinstance(caught.value.__cause__, mk.TransactionAbortableError)
        assert caught.value.__cause__.__cause__ is deliveries[0].error

        async def go_on_in_spite_of_it() -> None:
            async with producer.transaction():
                with pytest.raises(mk.KafkaError):
                    await (await producer.send(topic, bytes(2_000), partition=1))
                await producer.send(topic, b"more", partition=0)

        with pytest.raises(mk.TransactionAbortableError):
            await go_on_in_spite_of_it()
        async with producer.transaction():
            for partition in range(2):
                await producer.send(topic, b"again", partition=partition)
    assert await committed(bootstrap, topic) == [b"again", b"again"]


async def test_a_new_producer_fences_the_old_one(bootstrap: str, topic: str, name: str) -> None:
    async with mk.Producer(bootstrap, transactional_id=name) as old:

        async def be_fenced() -> None:
            async with old.transaction():
                await old.send(topic, b"zombie")
                await old.flush()
                async with mk.Producer(bootstrap, transactional_id=name) as new, new.transaction():
                    await new.send(topic, b"new")

        with pytest.raises(mk.FencedError, match="took over"):
            await be_fenced()
        with pytest.raises(mk.FencedError):
            async with old.transaction():
                raise AssertionError("never entered")
        with pytest.raises(mk.FencedError):
            await old.send(topic, b"zombie")
        await old.reinitialize()
        async with old.transaction():
            await old.send(topic, b"old")
    assert await committed(bootstrap, topic) == [b"new", b"old"]


async def test_offsets_count_with_their_transaction(
    bootstrap: str, topic: str, group: str, name: str
) -> None:
    partition = mk.TopicPartition(topic, 0)
    async with mk.Producer(bootstrap, transactional_id=name) as producer:
        async with producer.transaction() as transaction:
            await transaction.send_offsets({}, group)
            await transaction.send_offsets({partition: 5}, group)

        async def fail() -> None:
            async with producer.transaction() as transaction:
                await transaction.send_offsets({partition: 9}, group)
                raise KeyError

        with pytest.raises(KeyError):
            await fail()
    async with mk.AdminClient(bootstrap) as admin:
        found = await admin.list_group_offsets(group, require_stable=True)
    assert found[partition].offset == 5


async def test_a_member_commits_and_a_former_one_does_not(
    bootstrap: str, topic: str, group: str, name: str
) -> None:
    async with mk.Producer(bootstrap) as plain:
        await plain.send(topic, b"a")
    partition = mk.TopicPartition(topic, 0)
    async with (
        mk.Consumer(
            bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",  # it waits for offsets that are being committed
        ) as consumer,
        mk.Producer(bootstrap, transactional_id=name) as producer,
    ):
        await consumer.subscribe([topic])
        with pytest.raises(mk.CommitFailedError):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({partition: 1}, consumer)  # not joined yet
        await consumer.poll(1)
        async with producer.transaction() as transaction:
            await transaction.send_offsets(consumer.positions(), consumer)
        assert (await consumer.committed([partition]))[partition] is not None
        member = consumer.group_metadata()
        former = mk.GroupMetadata(group, member.generation_id - 1, member.member_id)
        with pytest.raises(mk.CommitFailedError, match="generation"):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({partition: 7}, former)

        async def go_on_in_spite_of_it() -> None:
            async with producer.transaction() as transaction:
                with pytest.raises(mk.CommitFailedError):
                    await transaction.send_offsets({partition: 7}, former)
                await producer.send(topic, b"b")

        with pytest.raises(mk.TransactionAbortableError):
            await go_on_in_spite_of_it()
        found = (await consumer.committed([partition]))[partition]
        assert found is not None
        assert found.offset == 1


async def test_offsets_whose_sending_is_cancelled_cannot_be_committed(
    bootstrap: str, topic: str, group: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may still arrive later: in the next transaction."""
    partition = mk.TopicPartition(topic, 0)
    async with mk.Producer(bootstrap, transactional_id=name) as producer:

        async def go_on_in_spite_of_it() -> None:
            async with producer.transaction() as transaction:
                await producer.send(topic, b"never")
                with trio.CancelScope() as scope, monkeypatch.context() as patch:
                    transactions = producer._engine.require_transactions()

                    async def hang(_: object) -> None:
                        scope.cancel()
                        await trio.sleep_forever()

                    patch.setattr(transactions._network, "run_plan", hang)
                    await transaction.send_offsets({partition: 7}, group)
                assert scope.cancelled_caught

        with pytest.raises(mk.TransactionAbortableError, match="was cancelled"):
            await go_on_in_spite_of_it()
        async with producer.transaction():
            await producer.send(topic, b"again")
    assert await committed(bootstrap, topic) == [b"again"]


async def test_administrators_see_transactions(
    bootstrap: str, topic: str, new_name: NewName
) -> None:
    name = new_name()
    async with (
        mk.AdminClient(bootstrap) as admin,
        mk.Producer(bootstrap, transactional_id=name, transaction_timeout_ms=9_000) as producer,
    ):
        async with producer.transaction():
            await (await producer.send(topic, b"a"))
            described = (await admin.describe_transactions([name]))[name]
            assert (described.state, described.timeout_ms) == ("Ongoing", 9_000)
            assert described.partitions == (mk.TopicPartition(topic, 0),)
            assert described.started_at_ms > 0
            listed = await admin.list_transactions(
                states=["Ongoing"], producer_ids=[described.producer_id]
            )
            assert listed == [(name, described.producer_id, "Ongoing")]
            assert await admin.list_transactions(duration_ms_min=3_600_000) == []
        with pytest.raises(mk.BrokerError) as caught:
            await admin.describe_transactions([new_name()])
        assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_a_transaction_outlives_a_broker_that_is_killed(
    own_broker: Broker, topic: str, name: str
) -> None:
    async with mk.Producer(own_broker.bootstrap, transactional_id=name) as producer:
        async with producer.transaction():
            await (await producer.send(topic, b"a"))
            await trio.to_thread.run_sync(own_broker.kill)
            await trio.to_thread.run_sync(own_broker.start)
            await producer.send(topic, b"b")
        async with producer.transaction():
            await producer.send(topic, b"c")
    assert await committed(own_broker.bootstrap, topic) == [b"a", b"b", b"c"]


async def test_the_outcome_of_an_unanswered_commit_is_unknown(
    own_broker: Broker, topic: str, name: str
) -> None:
    async with mk.Producer(
        own_broker.bootstrap, transactional_id=name, delivery_timeout_ms=500, request_timeout_ms=300
    ) as producer:

        async def commit() -> None:
            async with producer.transaction():
                await (await producer.send(topic, b"1"))
                own_broker.pause()

        with pytest.raises(mk.CommitUnknownError, match="may or may not"):
            await commit()
        with pytest.raises(mk.CommitUnknownError):
            await producer.send(topic, b"2")
        own_broker.resume()
        await producer.reinitialize()
        async with producer.transaction():
            await producer.send(topic, b"3")
    assert await committed(own_broker.bootstrap, topic) in ([b"3"], [b"1", b"3"])


async def test_a_commit_that_is_cancelled_is_done_or_undone(
    own_broker: Broker, topic: str, name: str
) -> None:
    async with mk.Producer(own_broker.bootstrap, transactional_id=name) as producer:
        with trio.move_on_after(0.2) as scope:
            async with producer.transaction():
                await (await producer.send(topic, b"1"))
                own_broker.pause()
                scope.deadline = trio.current_time() + 0.2
                trio.lowlevel.spawn_system_task(_go_on, own_broker)
        assert scope.cancelled_caught
        async with producer.transaction():
            await producer.send(topic, b"2")
    assert await committed(own_broker.bootstrap, topic) == [b"1", b"2"]


async def _go_on(broker: Broker) -> None:
    with trio.move_on_after(0.5):
        await trio.sleep_forever()
    broker.resume()
