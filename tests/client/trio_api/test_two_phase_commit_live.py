"""Externally decided transactions (KIP-939), on trio."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

import minikafka_client as mk
from minikafka import testing
from tests.client.trio_api.topics import NewName, committed, new_topic

two_phase = partial(mk.Producer[bytes, bytes], transaction_two_phase_commit_enable=True)
Outcome = mk.TransactionOutcome


async def prepare(producer: mk.Producer[bytes, bytes], topic: str, value: bytes) -> str:
    """Send a record in a transaction that is prepared; returns the state as a text."""
    async with producer.transaction() as transaction:
        await producer.send(topic, value)
        return str(await transaction.prepare())


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_what_is_decided_is_done(
    bootstrap: str, topic: str, name: str, is_enabled: bool
) -> None:
    async with mk.Producer(
        bootstrap, transactional_id=name, transaction_two_phase_commit_enable=is_enabled
    ) as producer:
        first = mk.PreparedTransactionState.parse(await prepare(producer, topic, b"first"))
        assert producer.prepared_transaction == first
        assert await committed(bootstrap, topic, is_open=True) == []
        assert await producer.complete_transaction(first) is Outcome.COMMITTED
        assert await committed(bootstrap, topic) == [b"first"]
        assert not producer.prepared_transaction
        assert await producer.complete_transaction(first) is Outcome.NONE_OPEN
        second = mk.PreparedTransactionState.parse(await prepare(producer, topic, b"second"))
        assert second != first
        assert await producer.complete_transaction(first) is Outcome.ABORTED
        await prepare(producer, topic, b"third")
        assert await producer.complete_transaction(None) is Outcome.ABORTED
        async with producer.transaction():
            await producer.send(topic, b"fourth")
    assert await committed(bootstrap, topic) == [b"first", b"fourth"]


async def test_nothing_else_happens_to_what_is_prepared(
    bootstrap: str, topic: str, name: str
) -> None:
    async with two_phase(bootstrap, transactional_id=name) as producer:
        stored: list[mk.PreparedTransactionState] = []

        async def decide_and_fail() -> None:
            async with producer.transaction() as transaction:
                await producer.send(topic, b"a")
                stored.append(await transaction.prepare())
                with pytest.raises(mk.TransactionStateError, match="nothing more can be sent"):
                    await producer.send(topic, b"b")
                with pytest.raises(mk.TransactionStateError):
                    await transaction.prepare()
                with pytest.raises(mk.TransactionStateError):
                    await transaction.send_offsets({mk.TopicPartition(topic, 0): 1}, "group")
                raise KeyError

        with pytest.raises(KeyError):
            await decide_and_fail()
        with pytest.raises(mk.TransactionStateError, match="complete_transaction"):
            async with producer.transaction():
                pass
        assert await producer.complete_transaction(stored[0]) is Outcome.COMMITTED
        async with producer.transaction() as transaction:  # and within the block
            await producer.send(topic, b"c")
            prepared = await transaction.prepare()
            assert await producer.complete_transaction(prepared) is Outcome.COMMITTED
    assert await committed(bootstrap, topic) == [b"a", b"c"]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_next_producer_does_what_was_decided(
    own_broker: testing.Broker, topic: str, name: str, is_stored: bool
) -> None:
    async with two_phase(own_broker.bootstrap, transactional_id=name) as producer:
        stored = await prepare(producer, topic, b"a")
    await trio.to_thread.run_sync(own_broker.kill)
    await trio.to_thread.run_sync(own_broker.start)
    for _crash in range(2):
        async with two_phase(own_broker.bootstrap, transactional_id=name) as producer:
            assert str(producer.prepared_transaction) == stored
    async with two_phase(own_broker.bootstrap, transactional_id=name) as producer:
        decided = mk.PreparedTransactionState.parse(stored if is_stored else "")
        outcome = await producer.complete_transaction(decided)
        assert outcome is (Outcome.COMMITTED if is_stored else Outcome.ABORTED)
        async with producer.transaction():
            await producer.send(topic, b"b")
    async with two_phase(own_broker.bootstrap, transactional_id=name) as producer:
        assert producer.prepared_transaction is None
        assert await producer.complete_transaction(decided) is Outcome.NONE_OPEN
    expected = [b"a", b"b"] if is_stored else [b"b"]
    assert await committed(own_broker.bootstrap, topic) == expected


async def test_what_was_open_and_not_prepared_can_only_be_aborted(
    bootstrap: str, topic: str, name: str
) -> None:
    async with two_phase(bootstrap, transactional_id=name) as old:
        stored = mk.PreparedTransactionState.parse(await prepare(old, topic, b"a"))
        await old.complete_transaction(stored)

        async def be_fenced() -> None:
            async with old.transaction():
                await (await old.send(topic, b"open"))
                async with two_phase(bootstrap, transactional_id=name) as new:
                    assert new.prepared_transaction not in (None, stored)
                    assert await new.complete_transaction(stored) is Outcome.ABORTED

        with pytest.raises(mk.FencedError):
            await be_fenced()
    assert await committed(bootstrap, topic) == [b"a"]


async def test_without_two_phase_commit_the_next_producer_aborts(
    bootstrap: str, topic: str, name: str
) -> None:
    async with mk.Producer(bootstrap, transactional_id=name) as producer:
        stored = mk.PreparedTransactionState.parse(await prepare(producer, topic, b"a"))
    async with mk.Producer(bootstrap, transactional_id=name) as producer:
        assert producer.prepared_transaction is None
        assert await producer.complete_transaction(stored) is Outcome.NONE_OPEN
    assert await committed(bootstrap, topic) == []


async def test_a_transaction_without_records_has_nothing_to_decide(
    bootstrap: str, topic: str, name: str
) -> None:
    async with two_phase(bootstrap, transactional_id=name) as producer:
        async with producer.transaction() as transaction:
            empty = await transaction.prepare()
        assert not empty
        assert await producer.complete_transaction(empty) is Outcome.NONE_OPEN
        await prepare(producer, topic, b"of the same epoch")
        assert await producer.complete_transaction(empty) is Outcome.ABORTED
    assert await committed(bootstrap, topic) == []


async def test_offsets_are_prepared_with_the_records(
    bootstrap: str, topic: str, group: str, name: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    async with (
        mk.AdminClient(bootstrap) as admin,
        two_phase(bootstrap, transactional_id=name) as producer,
    ):
        async with producer.transaction() as transaction:
            await transaction.send_offsets({where: 5}, group)
            prepared = await transaction.prepare()
        assert await admin.list_group_offsets(group) == {}
        assert await producer.complete_transaction(prepared) is Outcome.COMMITTED
        async with producer.transaction():
            await producer.send(topic, b"a")  # which waits until the one before is carried out
        assert (await admin.list_group_offsets(group))[where].offset == 5


async def test_nothing_is_decided_before_it_is_prepared(
    bootstrap: str, topic: str, name: str
) -> None:
    async with two_phase(bootstrap, transactional_id=name) as producer, producer.transaction():
        await producer.send(topic, b"a")
        with pytest.raises(mk.TransactionStateError, match="prepare it first"):
            await producer.complete_transaction(None)
    assert await committed(bootstrap, topic) == [b"a"]


async def test_what_is_lost_is_not_prepared(bootstrap: str, new_name: NewName) -> None:
    topic = await new_topic(bootstrap, new_name(), max_message_bytes="1000")
    async with two_phase(bootstrap, transactional_id=new_name()) as producer:

        async def lose() -> None:
            async with producer.transaction() as transaction:
                await producer.send(topic, b"a")
                await producer.send(topic, bytes(2_000))
                with pytest.raises(mk.TransactionAbortableError, match="lost"):
                    await transaction.prepare()
                with pytest.raises(mk.TransactionAbortableError):
                    await producer.complete_transaction(None)

        with pytest.raises(mk.TransactionAbortedError):
            await lose()
        async with producer.transaction():
            await producer.send(topic, b"b")
    assert await committed(bootstrap, topic) == [b"b"]


@pytest.mark.parametrize("commits", [True, False])
async def test_it_was_decided_otherwise_elsewhere(
    bootstrap: str, topic: str, name: str, commits: bool
) -> None:
    async with (
        mk.AdminClient(bootstrap) as admin,
        two_phase(bootstrap, transactional_id=name) as producer,
    ):
        prepared = mk.PreparedTransactionState.parse(await prepare(producer, topic, b"a"))
        await admin.end_prepared_transaction(name, prepared, commits=not commits)
        with pytest.raises(mk.TransactionAbortedError if commits else mk.TransactionStateError):
            await producer.complete_transaction(prepared if commits else None)
        async with producer.transaction():
            await producer.send(topic, b"b")
    assert await committed(bootstrap, topic) == ([b"b"] if commits else [b"a", b"b"])


async def test_a_fenced_producer_decides_nothing(bootstrap: str, topic: str, name: str) -> None:
    async with two_phase(bootstrap, transactional_id=name) as old:
        stored = mk.PreparedTransactionState.parse(await prepare(old, topic, b"a"))
        async with two_phase(bootstrap, transactional_id=name) as new:
            for _again in range(2):
                with pytest.raises(mk.FencedError):
                    await old.complete_transaction(stored)
            assert await new.complete_transaction(stored) is Outcome.COMMITTED
            with pytest.raises(mk.FencedError):
                await old.complete_transaction(stored)
            await old.reinitialize()  # now the new one is the old one
            await prepare(old, topic, b"b")
            await old.complete_transaction(None)
    assert await committed(bootstrap, topic) == [b"a"]


async def test_a_decision_that_is_not_answered_is_repeated(
    own_broker: testing.Broker, topic: str, name: str
) -> None:
    async with two_phase(own_broker.bootstrap, transactional_id=name) as producer:
        stored = mk.PreparedTransactionState.parse(await prepare(producer, topic, b"a"))
    async with two_phase(
        own_broker.bootstrap, transactional_id=name, delivery_timeout_ms=500, request_timeout_ms=300
    ) as impatient:
        own_broker.pause()
        with pytest.raises(mk.CommitUnknownError, match="repeat"):
            await impatient.complete_transaction(stored)
        own_broker.resume()
        outcome = None
        while outcome is None:
            try:
                outcome = await impatient.complete_transaction(stored)
            except mk.CommitUnknownError:
                assert impatient.prepared_transaction == stored
        assert outcome is Outcome.COMMITTED
    assert await committed(own_broker.bootstrap, topic) == [b"a"]


async def test_preparing_that_is_cancelled_aborts_and_deciding_that_is_cancelled_is_repeated(
    own_broker: testing.Broker, topic: str, name: str
) -> None:
    async with two_phase(own_broker.bootstrap, transactional_id=name) as producer:
        await prepare(producer, topic, b"the broker is there")
        await producer.complete_transaction(None)
        with trio.CancelScope() as scope:
            async with producer.transaction() as transaction:
                own_broker.pause()
                await producer.send(topic, b"a")
                scope.deadline = trio.current_time() + 0.1
                try:
                    await transaction.prepare()
                finally:
                    own_broker.resume()
        assert scope.cancelled_caught
        assert not producer.prepared_transaction
        stored = mk.PreparedTransactionState.parse(await prepare(producer, topic, b"b"))
        own_broker.pause()
        with trio.move_on_after(0.1) as scope:
            await producer.complete_transaction(stored)
        own_broker.resume()
        assert scope.cancelled_caught
        assert producer.prepared_transaction == stored
        assert await producer.complete_transaction(stored) is Outcome.COMMITTED
    assert await committed(own_broker.bootstrap, topic) == [b"b"]


async def test_two_tasks_may_say_the_same(bootstrap: str, topic: str, name: str) -> None:
    async with two_phase(bootstrap, transactional_id=name) as producer:
        stored = mk.PreparedTransactionState.parse(await prepare(producer, topic, b"a"))
        outcomes: list[mk.TransactionOutcome] = []

        async def complete() -> None:
            outcomes.append(await producer.complete_transaction(stored))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(complete)
            nursery.start_soon(complete)
        assert set(outcomes) == {Outcome.COMMITTED}
        async with producer.transaction():
            await producer.send(topic, b"b")
    assert await committed(bootstrap, topic) == [b"a", b"b"]


async def test_where_it_is_not_allowed_the_producer_says_so(tmp_path: Path) -> None:
    with testing.broker(directory=tmp_path) as broker:
        producer = two_phase(broker.bootstrap, transactional_id="id")
        with pytest.raises(
            mk.TwoPhaseCommitError, match=r"transaction\.two\.phase\.commit\.enable"
        ):
            await producer.__aenter__()


def test_it_needs_a_transactional_id() -> None:
    with pytest.raises(ValueError, match="transactional_id"):
        two_phase("localhost:9092")


async def test_an_ordinary_producer_has_nothing_to_complete(bootstrap: str) -> None:
    async with mk.Producer(bootstrap) as producer:
        with pytest.raises(ValueError, match="transactional_id"):
            await producer.complete_transaction(None)
