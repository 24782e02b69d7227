"""What is stored for the next coordinator, and what it does with that."""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import (
    AddPartitions,
    Ask,
    EndTransaction,
    InitProducer,
    TransactionEntry,
    TransactionState,
)
from minikafka.coordinator.transaction.records import decode_entry, encode_entry
from minikafka.coordinator.transaction.states import check_change
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError
from tests.coordinator.transaction.harness import P0, P1, P2, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState


def test_a_decided_transaction_is_finished_by_the_next_coordinator() -> None:
    coordinator = Coordinator()
    coordinator.writes_markers = False
    producer = coordinator.init()
    coordinator.add(producer, P0, P1)
    coordinator.end(producer)
    coordinator.mark(coordinator.markers[0], P0)
    coordinator.writes_markers = True
    coordinator.fail_over()
    old, new = coordinator.markers
    assert new.partitions == (P0, P1)  # again: the previous one may have been deposed
    assert new.commits
    assert new.coordinator_epoch == old.coordinator_epoch + 1
    assert coordinator.is_in(State.COMPLETE_COMMIT)


def test_an_undecided_transaction_continues() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.fail_over()
    assert coordinator.add(producer, P1) is OK
    assert coordinator.end(producer).error_code is OK
    assert coordinator.markers[0].partitions == (P0, P1)


def test_an_uncommitted_decision_has_no_effect() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.commits_at_once = False
    token = coordinator.begin(EndTransaction(TID, *producer, commits=True))
    waiting = coordinator.begin(AddPartitions(TID, *producer, (P1,)))
    coordinator.fail_over(lost=1)
    assert coordinator.replies[token].error_code is ErrorCode.NOT_COORDINATOR
    assert coordinator.replies[waiting].error_code is ErrorCode.NOT_COORDINATOR
    assert coordinator.is_in(State.ONGOING)
    coordinator.commits_at_once = True
    assert coordinator.end(producer, commits=False).error_code is OK
    assert [one.commits for one in coordinator.markers] == [False]


def test_a_shard_refuses_clients_before_loading_and_after_resigning() -> None:
    coordinator = Coordinator()
    new = coordinator._new_shard()
    assert new.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (reply,) = new.handle(Ask(InitProducer(TID, 1_000), "x"), coordinator.now)
    assert "LOAD_IN_PROGRESS" in repr(reply)
    with pytest.raises(RuntimeError, match="for loading"):
        coordinator.shard.replay(b"", b"")
    coordinator.carry_out(coordinator.shard.resigned())
    reply_code = coordinator.ask(InitProducer(TID, 1_000)).error_code
    assert reply_code is ErrorCode.NOT_COORDINATOR
    assert coordinator.shard.deadline() is None


def test_records_round_trip() -> None:
    entry = TransactionEntry(
        TID, 5, 6, 7, State.PREPARE_ABORT, (P0, P2, P1), 8, 9, 10, 11, 12, 13, 2
    )
    key, value = encode_entry(entry)
    decoded = decode_entry(key, value)
    assert decoded is not None
    assert decoded[1] is not None
    assert sorted(decoded[1].partitions) == sorted(entry.partitions)
    assert decoded[1]._replace(partitions=entry.partitions) == entry
    assert decode_entry(key, None) == (TID, None)


def test_damaged_and_unknown_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator()
    coordinator.init()
    key, value = coordinator.log[-1]
    assert value is not None
    coordinator.log += [
        (b"\0\7unknown", b"x"),
        (b"", b"x"),
        (key, value[:5]),
        (key, b"\0\x63" + value[2:]),
        (key, value[:16] + b"\x63" + value[17:]),
    ]
    before = coordinator.entry
    coordinator.fail_over()
    assert coordinator.entry == before
    assert caplog.text.count("damaged") == 4
    with pytest.raises(MalformedMessageError, match="has state 99"):
        decode_entry(*coordinator.log[-1])


def test_titles_are_kafkas() -> None:
    assert [state.title for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
    ]


def test_invalid_transitions_raise() -> None:
    entry = TransactionEntry(TID, 1, 5, 1_000)
    check_change(None, entry)
    with pytest.raises(RuntimeError, match="EMPTY to COMPLETE_COMMIT"):
        check_change(entry, entry._replace(state=State.COMPLETE_COMMIT))
    with pytest.raises(RuntimeError, match="epoch 4 after 5"):
        check_change(entry, entry._replace(producer_epoch=4))
