"""Requests with an epoch of the next transaction, or of one long ago."""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import EndTransaction, InitProducer, TransactionState
from minikafka.coordinator.transaction.records import encode_entry
from minikafka.coordinator.transaction.states import PRODUCER_EPOCH_MAX
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState


@pytest.mark.parametrize("epoch", [0, PRODUCER_EPOCH_MAX - 1])
@pytest.mark.parametrize("commits", [True, False])
def test_the_next_transaction_is_aborted_before_the_last_one_is_complete(
    epoch: int, commits: bool
) -> None:
    """Its records could not be written as long as markers were missing, and it is aborted."""
    coordinator = Coordinator()
    producer_id, _ = coordinator.init()
    coordinator.log.append(encode_entry(coordinator.entry._replace(producer_epoch=epoch)))
    coordinator.fail_over()
    coordinator.writes_markers = False
    coordinator.add((producer_id, epoch), P0, transaction_version=2)
    reply = coordinator.end((producer_id, epoch), commits=commits, version=2)
    token = coordinator.begin(
        EndTransaction(TID, reply.producer_id, reply.producer_epoch, False, 2)
    )
    assert token not in coordinator.replies
    coordinator.mark(coordinator.markers[0])
    answer = coordinator.replies[token]
    assert answer.error_code is OK
    assert (answer.producer_id, answer.producer_epoch) == (
        reply.producer_id,
        reply.producer_epoch + 1,
    )
    assert len(coordinator.markers) == 1
    assert coordinator.is_in(State.COMPLETE_ABORT)


def test_a_producer_of_an_exhausted_id_is_not_a_retry_of_the_first_epoch() -> None:
    """The id has used all its 32,766 epochs; then another producer continues with another id."""
    coordinator = Coordinator()
    zombie = coordinator.init()
    last = PRODUCER_EPOCH_MAX - 1
    coordinator.log.append(encode_entry(coordinator.entry._replace(producer_epoch=last)))
    coordinator.fail_over()
    fresh = coordinator.init(producer_id=zombie[0], producer_epoch=last)
    assert fresh[0] != zombie[0]
    again = coordinator.init(producer_id=fresh[0], producer_epoch=fresh[1])
    assert again == (fresh[0], 1)
    assert zombie[1] == fresh[1] == 0  # the epoch that may be retried, but not with that id
    refused = coordinator.ask(InitProducer(TID, 1_000, *zombie))
    assert refused.error_code is ErrorCode.PRODUCER_FENCED
