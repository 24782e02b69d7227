"""What a transactional producer asks coordinators, and what it makes of their answers."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    end_txn,
    find_coordinator,
    init_producer_id,
    txn_offset_commit,
)
from minikafka_client.core.transaction import TransactionMachine
from minikafka_client.errors import BrokerError, CommitUnknownError, ConnectionLostError
from minikafka_client.plans import transactions
from minikafka_client.plans.coordinators import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE
from minikafka_client.types import GroupMetadata, OffsetAndMetadata, Offsets, TopicPartition
from tests.client.plans.answers import added, committed, ended, granted, versions
from tests.client.plans.scripted import Script

NEW = transactions.Identity("id")
KNOWN = transactions.Identity("id", 7, 3)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def coordinator() -> transactions.Coordinator:
    return transactions.Coordinator("id", TRANSACTION_KEY_TYPE)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (versions(), 2),
        (versions(level=3), 2),
        (versions(level=1), 0),
        (versions(level=None), 0),
        (versions(produce=11), 0),
        (api_versions.Response(error_code=0, api_keys=[]), 0),
    ],
)
def test_version_2_is_what_cluster_and_brokers_have(
    response: api_versions.Response, expected: int
) -> None:
    assert transactions.read_transaction_version(response) == expected


def test_a_producer_begins_at_its_coordinator() -> None:
    script = Script()
    script.coordinators["id"] = 1
    script.on(init_producer_id.Request, granted(7, 0))
    script.on(api_versions.Request, versions())
    found = script.run(transactions.init_producer, coordinator(), NEW, 60_000)
    assert found == (transactions.Identity("id", 7, 0), 2)
    [asked] = script.asked(find_coordinator.Request)
    assert (asked.key, asked.key_type) == ("id", TRANSACTION_KEY_TYPE)
    assert {call.node for call in script.calls[1:]} == {1}
    assert script.calls[1].version_min == 0


def test_a_new_epoch_needs_a_broker_that_knows_of_them() -> None:
    script = Script().on(init_producer_id.Request, granted(7, 4))
    script.on(api_versions.Request, versions(level=None))
    found = script.run(transactions.init_producer, coordinator(), KNOWN, 60_000)
    assert found == (transactions.Identity("id", 7, 4), 0)
    assert script.calls[1].version_min == 3


def test_what_passes_is_waited_for() -> None:
    script = Script()
    passing = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
    refused = [granted(-1, -1, code=ErrorCode[name]) for name in passing]
    script.on(init_producer_id.Request, *refused, granted(7, 0))
    script.on(api_versions.Request, versions())
    where = coordinator()
    script.run(transactions.init_producer, where, NEW, 60_000)
    assert len(script.asked(init_producer_id.Request)) == 4
    assert script.pauses == [0, 1]  # and a short one, while the transaction before is ended
    assert len(script.asked(find_coordinator.Request)) == 2  # again, because it has moved
    assert not where.is_unanswered


def test_a_transaction_before_that_does_not_end_is_asked_for_less_often() -> None:
    script = Script(retries_max=1)
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    script.on(end_txn.Request, ended(code, -1))
    with pytest.raises(BrokerError) as caught:
        script.run(
            transactions.end_transaction, coordinator(), KNOWN, commits=True, has_own_epochs=False
        )
    assert caught.value.code is code
    assert script.pauses == [0, 1]


def test_what_is_final_is_raised_immediately() -> None:
    script = Script()
    code = ErrorCode.PRODUCER_FENCED
    script.on(init_producer_id.Request, granted(-1, -1, code=code))
    with pytest.raises(BrokerError) as caught:
        script.run(transactions.init_producer, coordinator(), KNOWN, 60_000)
    assert caught.value.code is code
    assert script.pauses == []


@pytest.mark.parametrize("has_own_epochs", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_the_end_names_the_next_identity(has_own_epochs: bool, commits: bool) -> None:
    script = Script().on(end_txn.Request, ended())
    following = script.run(
        transactions.end_transaction,
        coordinator(),
        KNOWN,
        commits=commits,
        has_own_epochs=has_own_epochs,
    )
    assert following == transactions.Identity("id", 7, 4)
    [asked] = script.asked(end_txn.Request)
    assert (asked.producer_id, asked.producer_epoch, asked.committed) == (7, 3, commits)
    call = script.calls[-1]
    assert (call.version_min, min(call.version_max, 5)) == ((5, 5) if has_own_epochs else (0, 4))


@pytest.mark.parametrize("lost", [ConnectionLostError("lost"), ended(7, -1)])
def test_an_end_that_was_never_answered_is_remembered(
    lost: ConnectionLostError | end_txn.Response,
) -> None:
    script = Script().on(end_txn.Request, lost, ended(ErrorCode.PRODUCER_FENCED, -1))
    where = coordinator()
    with pytest.raises(BrokerError):
        script.run(transactions.end_transaction, where, KNOWN, commits=True, has_own_epochs=True)
    assert where.is_unanswered


def test_a_coordinator_that_cannot_be_found_has_not_been_asked() -> None:
    script = Script(retries_max=0).on(find_coordinator.Request, ConnectionLostError("lost"))
    where = coordinator()
    with pytest.raises(ConnectionLostError):
        script.run(transactions.end_transaction, where, KNOWN, commits=True, has_own_epochs=True)
    assert not where.is_unanswered


def test_partitions_are_added_again_until_all_are() -> None:
    script = Script()
    not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
    refused = added(not_tried, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    script.on(add_partitions_to_txn.Request, refused, added(0, 0))
    script.run(transactions.add_partitions, coordinator(), KNOWN, [P1, P0])
    asked = script.asked(add_partitions_to_txn.Request)
    assert len(asked) == 2
    assert asked[0].v3_and_below_topics[0].partitions == [0, 1]
    assert script.calls[-1].version_max == 3


def test_the_refusal_that_says_most_is_raised() -> None:
    script = Script()
    not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
    script.on(add_partitions_to_txn.Request, added(not_tried, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError) as caught:
        script.run(transactions.add_partitions, coordinator(), KNOWN, [P0, P1])
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_group_is_added_by_its_name() -> None:
    script = Script().on(add_offsets_to_txn.Request, add_offsets_to_txn.Response(error_code=0))
    script.run(transactions.add_offsets, coordinator(), KNOWN, "g")
    [asked] = script.asked(add_offsets_to_txn.Request)
    assert (asked.transactional_id, asked.group_id, asked.producer_epoch) == ("id", "g", 3)


@pytest.mark.parametrize(
    ("group", "has_own_epochs", "expected"),
    [
        (GroupMetadata("g"), False, (0, 4)),
        (GroupMetadata("g", 3, "m"), False, (3, 4)),
        (GroupMetadata("g", 3, "m"), True, (5, 5)),
    ],
)
def test_offsets_go_to_the_groups_coordinator(
    group: GroupMetadata, has_own_epochs: bool, expected: tuple[int, int]
) -> None:
    script = Script()
    loading = committed(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    script.on(txn_offset_commit.Request, loading, committed(0))
    offsets: Offsets = {P0: 5, P1: OffsetAndMetadata(6, "text", 2)}
    script.run(
        transactions.commit_offsets_in_transaction,
        transactions.Coordinator("g", GROUP_KEY_TYPE),
        KNOWN,
        group,
        offsets,
        has_own_epochs=has_own_epochs,
    )
    asked = script.asked(txn_offset_commit.Request)[-1]
    wanted = (group.group_id, group.generation_id, group.member_id)
    assert (asked.group_id, asked.generation_id, asked.member_id) == wanted
    first, second = asked.topics[0].partitions
    assert (first.committed_offset, first.committed_leader_epoch) == (5, -1)
    assert (second.committed_offset, second.committed_leader_epoch) == (6, 2)
    call = script.calls[-1]
    assert (call.version_min, min(call.version_max, 5)) == expected


def test_an_offset_that_is_refused_for_good_is_raised() -> None:
    script = Script()
    codes = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
    script.on(txn_offset_commit.Request, committed(*codes))
    with pytest.raises(BrokerError) as caught:
        script.run(
            transactions.commit_offsets_in_transaction,
            transactions.Coordinator("g", GROUP_KEY_TYPE),
            KNOWN,
            GroupMetadata("g", 3, "m"),
            {P0: 1, P1: 1},
            has_own_epochs=True,
        )
    assert caught.value.code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_that_lost_its_place_may_have_stored_the_commit(code: ErrorCode) -> None:
    """It says so to all whose decision is in its log, and its successor may have that, too."""
    script = Script()
    script.coordinators["id"] = 1
    script.on(end_txn.Request, ended(code))
    where = coordinator()
    machine = TransactionMachine("id")
    machine.granted(7, 3, 2)
    machine.begin()
    machine.has_begun = True
    machine.commit()
    with pytest.raises(BrokerError) as caught:
        script.run(transactions.end_transaction, where, KNOWN, commits=True, has_own_epochs=True)
    machine.commit_refused(caught.value, is_in_doubt=where.is_unanswered)
    assert isinstance(machine.error, CommitUnknownError)
