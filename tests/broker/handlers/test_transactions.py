"""The requests of transactional producers over the wire, in all their versions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.control.lifecycle import Lifecycle
from minikafka.broker.coordinators.transactions import Confirmation
from minikafka.broker.replicas.partition import Partition
from minikafka.coordinator.transaction import TransactionConfig
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    produce,
)
from tests.broker.handlers.transactional_wire import (
    GROUP,
    TID,
    add,
    add_many,
    add_offsets,
    begun,
    commit_offset,
    end,
    find,
    init,
    stable_values,
    transaction,
    write,
)
from tests.kit.in_process import running_broker
from tests.kit.wire import produce_request

OK = ErrorCode.NONE
LONG_AGO = (2**63 - 1, 2**15 - 1)
FENCED = {True: ErrorCode.PRODUCER_FENCED, False: ErrorCode.INVALID_PRODUCER_EPOCH}


@pytest.mark.parametrize("version", range(7))
async def test_every_version_of_init_producer_id_works(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await find(client)
        first = await init(client, version=version)
        second = await init(client, version=version)
        assert (first.error_code, second.error_code) == (OK, OK)
        assert second.producer_id == first.producer_id
        assert second.producer_epoch == first.producer_epoch + 1


@pytest.mark.parametrize("version", [3, 4, 5, 6])
async def test_an_old_epoch_is_fenced(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        old = await begun(client)
        new = await begun(client)
        await add(client, new, ("t", 0))
        refused = await init(client, old, version=version)
        assert refused.error_code == FENCED[version >= 4]
        assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
        going_on = await init(client, new, version=version)
        assert (going_on.producer_id, going_on.producer_epoch) == (new[0], new[1] + 1)


@pytest.mark.parametrize("timeout_ms", [-(2**31), -1, 0, 900_001, 2**31 - 1])
async def test_invalid_timeouts_are_refused(tmp_path: Path, timeout_ms: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await find(client)
        answer = await init(client, timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize(("is_two_phase", "keeps"), [(True, False), (False, True), (True, True)])
async def test_two_phase_commit_requires_the_setting(
    tmp_path: Path, is_two_phase: bool, keeps: bool
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await find(client)
        answer = await init(client, version=6, is_two_phase=is_two_phase, keeps_prepared=keeps)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("producer", [(-5, 0), (-1, -1), (2**40, 0), LONG_AGO, (2**40, -(2**15))])
async def test_unknown_producers_are_refused(tmp_path: Path, producer: tuple[int, int]) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await begun(client)
        mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        for version in range(6):
            assert await add(client, producer, ("t", 0), version=version) == {("t", 0): mapping}
            assert (await end(client, producer, version=version)).error_code == mapping
        for version in range(5):
            assert await add_offsets(client, producer, version=version) is mapping
        assert await write(client, producer, b"x", version=12) is not OK
        assert await stable_values(client) == (0, 0, 0)


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_all_or_none(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producer = await begun(client)
        unknown, skipped = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        )
        for place in (("t", 2), ("t", -1), ("t", 2**31 - 1), ("nowhere", 0)):
            codes = await add(client, producer, ("t", 0), place, version=version)
            assert codes == {("t", 0): skipped, place: unknown}
        assert await write(client, producer, b"x") is not OK  # nothing was added
        codes = await add(client, producer, ("t", 0), ("t", 1), version=version)
        assert set(codes.values()) == {OK}
        assert await write(client, producer, b"x") is OK
        assert (await end(client, producer)).error_code == OK


async def test_adding_a_partition_that_is_led_here_confirms_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first append does not ask the coordinator again; the marker takes it back."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producer = await begun(client)
        asked: list[str] = []
        service = under_test.broker.transactions
        confirm = service.confirm

        async def counted(confirmation: Confirmation, partitions: Iterable[Partition]) -> ErrorCode:
            asked.extend(repr(one) for one in partitions)
            return await confirm(confirmation, partitions)

        monkeypatch.setattr(service, "confirm", counted)
        await add(client, producer, ("t", 0), ("t", 1))
        assert await write(client, producer, b"x") is OK
        assert asked == []
        assert (await end(client, producer)).error_code == OK
        late = await write(client, producer, b"late", partition=1)
        assert late is ErrorCode.INVALID_TXN_STATE
        assert asked == ["t-1"]


async def test_adding_and_ending_may_be_pipelined(tmp_path: Path) -> None:
    """A client need not wait for the answer to AddPartitionsToTxn, and gets both in order."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        adding = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=TID,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[add_partitions_to_txn.Topic(name="t", partitions=[0])],
        )
        ending = end_txn.Request(
            transactional_id=TID,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=True,
        )
        for _ in range(3):
            await client.send(adding, 3)
            await client.send(ending, 3)
            _, added = await client.receive(add_partitions_to_txn.Response, 3)
            _, ended = await client.receive(end_txn.Response, 3)
            (topic,) = added.results_by_topic_v3_and_below
            assert topic.results_by_partition[0].partition_error_code == OK
            assert ended.error_code == OK


@pytest.mark.parametrize("version", range(4))
async def test_a_fenced_producer_adds_nothing(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        old = await begun(client)
        await begun(client)
        code = FENCED[version >= 2]
        assert await add(client, old, ("t", 0), version=version) == {("t", 0): code}
        assert await add_offsets(client, old, version=version) is code
        assert (await end(client, old, version=version)).error_code == code


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_verify_several_transactions(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        one = await begun(client, transactional_id="one")
        two = await begun(client, transactional_id="two")
        here, there, nowhere = ("t", 0), ("t", 1), ("nowhere", 0)
        added = await add_many(
            client,
            transaction(one, here, transactional_id="one"),
            transaction(LONG_AGO, here, transactional_id="two"),
            transaction(one, nowhere, here, transactional_id="three"),
            version=version,
        )
        assert added == {
            "one": {here: OK},
            "two": {here: ErrorCode.INVALID_PRODUCER_ID_MAPPING},
            "three": {
                nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                here: ErrorCode.OPERATION_NOT_ATTEMPTED,
            },
        }
        not_in_it = ErrorCode.TRANSACTION_ABORTABLE if version >= 5 else ErrorCode.INVALID_TXN_STATE
        verified = await add_many(
            client,
            transaction(one, here, transactional_id="one", verifies_only=True),
            transaction(two, here, transactional_id="two", verifies_only=True),
            version=version,
        )
        assert verified == {"one": {here: OK}, "two": {here: not_in_it}}
        # Verification adds nothing.
        code = await add(
            client, one, there, transactional_id="one", version=version, verifies_only=True
        )
        assert code == {there: not_in_it}
        assert await add_many(client, version=version) == {}


async def test_a_missing_transactional_id_or_group_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        invalid = ErrorCode.INVALID_REQUEST
        assert await add(client, producer, ("t", 0), transactional_id="") == {("t", 0): invalid}
        answer = await end(client, producer, transactional_id="")
        assert answer.error_code == invalid
        assert await add_offsets(client, producer, group_id="") is invalid


@pytest.mark.parametrize("version", range(7))
async def test_offsets_of_a_transaction_in_every_version(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        await find(client, GROUP, 0)
        commit = partial(
            commit_offset, topic_id=under_test.broker.image.topics["t"].topic_id, version=version
        )
        refused = await commit(client, LONG_AGO, 7)
        assert refused is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if version < 5:
            not_added = {4: ErrorCode.TRANSACTION_ABORTABLE}
            expected = not_added.get(version, ErrorCode.INVALID_TXN_STATE)
            assert await commit(client, producer, 7) is expected
            assert await add_offsets(client, producer, version=min(version, 4)) is OK
        nowhere = await commit(client, producer, 7, topic="nowhere", topic_id=b"n" * 16)
        by_id = version >= 6
        assert nowhere is (
            ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        if version >= 3:
            of_nobody = await commit(client, producer, 7, generation_id=5)
            assert of_nobody is ErrorCode.ILLEGAL_GENERATION
        assert await commit(client, producer, 7) is OK
        end_version = 5 if version >= 5 else 3
        ended = await end(client, producer, commits=False, version=end_version)
        assert ended.error_code == OK
        # A late write is refused.
        late = await commit(client, producer, 8)
        assert late is not OK


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_offset_commits_are_retried_when_a_marker_overtakes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with running_broker(tmp_path) as under_test:
        client, other = under_test.connect(), under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        await find(client, GROUP, 0)
        if version < 5:
            assert await add_offsets(client, producer, version=min(version, 4)) is OK
        transactions = under_test.broker.transactions
        confirm = transactions.confirm

        async def confirm_too_late(
            confirmation: Confirmation, partitions: list[Partition]
        ) -> ErrorCode:
            code = await confirm(confirmation, partitions)
            log = partitions[0].log
            end_before = log.log_end_offset
            assert (await end(other, producer, commits=False)).error_code == OK
            while log.log_end_offset == end_before:  # the marker comes after the answer
                await trio.testing.wait_all_tasks_blocked()
            return code

        monkeypatch.setattr(transactions, "confirm", confirm_too_late)
        late = await commit_offset(client, producer, 7, version=version)
        assert late is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        monkeypatch.setattr(transactions, "confirm", confirm)
        # Now the coordinator returns its own error; from version 5 on it is a new transaction.
        expected = {3: ErrorCode.INVALID_TXN_STATE, 4: ErrorCode.TRANSACTION_ABORTABLE, 5: OK}
        assert await commit_offset(client, producer, 7, version=version) is expected[version]


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commits", [True, False])
async def test_every_version_of_end_txn(tmp_path: Path, version: int, commits: bool) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        has_own_epoch = version >= 5
        never_began = await end(client, producer, commits=True, version=version)
        assert never_began.error_code == ErrorCode.INVALID_TXN_STATE
        if not has_own_epoch:
            await add(client, producer, ("t", 0))
        code = await write(client, producer, b"x", version=12 if has_own_epoch else 9)
        assert code is OK
        assert await stable_values(client) == (0, 1, 0)
        answers = [await end(client, producer, commits=commits, version=version) for _ in "12"]
        first, again = ((one.error_code, one.producer_id, one.producer_epoch) for one in answers)
        assert first == again
        assert first == ((OK, producer[0], producer[1] + 1) if has_own_epoch else (OK, -1, -1))
        # It can no longer end the other way.
        other = await end(client, producer, commits=not commits, version=version)
        assert other.error_code != OK
        while (await stable_values(client))[0] < 2:
            pass
        assert await stable_values(client) == (2, 2, 0 if commits else 1)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize(("first", "last"), [(12, 3), (9, 5)])
async def test_a_client_that_mixes_transaction_versions(
    tmp_path: Path, first: int, last: int, commits: bool
) -> None:
    """Partitions are added as version 2 does, and the epoch is kept as before, or the other way."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer_id, epoch = await begun(client)
        for number in range(3):
            producer = (producer_id, epoch)
            if first < 12:
                await add(client, producer, ("t", 0))
            sequence = number if last < 5 else 0
            assert await write(client, producer, b"x", sequence=sequence, version=first) is OK
            ended = await end(client, producer, commits=commits, version=last)
            assert ended.error_code == OK
            epoch += last >= 5
            while (await stable_values(client))[0] < 2 * (number + 1):
                pass


async def test_a_batch_without_its_transactional_id_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        await add(client, producer, ("t", 0))
        assert await write(client, producer, b"x", transactional_id=None) is not OK
        assert await write(client, producer, b"x", transactional_id="") is not OK
        assert await write(client, producer, b"x", transactional_id="another") is not OK
        for senseless in (b"", b"\x00", b"\xff" * 80):
            request = produce_request("t", senseless, acks=-1)
            request.transactional_id = TID
            answer = await client.ask(request, 12, produce.Response)
            assert answer.responses[0].partition_responses[0].error_code != OK
        assert await stable_values(client) == (0, 0, 0)
        assert await write(client, producer, b"x") is OK


def test_the_defaults_are_kafkas() -> None:
    config = TransactionConfig()
    assert config.transaction_max_timeout_ms == 15 * 60_000
    assert config.transactional_id_expiration_ms == 7 * 86_400_000
    assert not config.is_two_phase_commit_enabled


@pytest.mark.parametrize("version", [3, 5])
async def test_a_coordinator_that_may_have_been_replaced_does_not_answer_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Its successor may know of a later transaction, which would be considered committed."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        produce_version = 12 if version == 5 else 9

        async def begin() -> None:
            if version < 5:
                assert await add(client, producer, ("t", 0)) == {("t", 0): OK}
            assert await write(client, producer, b"x", version=produce_version) is OK

        await begin()
        ended = await end(client, producer, version=version)
        assert ended.error_code == OK
        mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await add(client, LONG_AGO, ("t", 0)) == {("t", 0): mapping}  # nothing is pending
        monkeypatch.setattr(Lifecycle, "has_lease", property(lambda _: False))
        not_sure = ErrorCode.NOT_COORDINATOR
        refused = await end(client, producer, commits=False, version=version)
        assert (refused.error_code, refused.producer_id) == (not_sure, -1)
        assert await add(client, LONG_AGO, ("t", 0)) == {("t", 0): not_sure}
        described = describe_transactions.Request(transactional_ids=[TID])
        answer = await client.ask(described, 0, describe_transactions.Response)
        assert answer.transaction_states[0].error_code == not_sure
        # An answer that waits for a commit needs no lease: a deposed leader cannot commit.
        assert await end(client, producer, version=version) == ended
        if version == 5:
            producer = (ended.producer_id, ended.producer_epoch)
        await begin()
        assert await add(client, producer, ("t", 0)) == {("t", 0): not_sure}
        assert (await end(client, producer, version=version)).error_code == OK
