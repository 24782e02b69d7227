"""Random faults against transactions: whole, once, in order, and never in another's place."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.transaction import TransactionState
from minikafka_client.errors import TransactionAbortableError
from tests.client.core.sender_faults import NODE, PARTITION, SenderFaults
from tests.client.core.transaction_world import TransactionWorld

PASSING = st.sampled_from(
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ]
)
LOST = st.sampled_from(
    [
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    ]
)


class TransactionsAgainstFaults(SenderFaults):
    world: TransactionWorld

    @initialize(version=st.sampled_from([0, 2]))
    def open(self, version: int) -> None:
        self.world = TransactionWorld(version, delivery_timeout_s=20.0)
        self.count = 0
        self.world.begin()

    @rule(partition=PARTITION, count=st.integers(1, 6))
    def send(self, partition: int, count: int) -> None:
        for _ in range(count):
            self.count += 1
            try:
                self.world.send(partition, b"%d-%032d" % (partition, self.count))
            except TransactionAbortableError:
                assert self.world.machine.state is TransactionState.ABORTABLE
        self.world.expire()

    @rule(node=NODE, error=PASSING)
    def refuse_for_now(self, node: int, error: ErrorCode) -> None:
        self.world.process(node, error)

    @rule(node=NODE, error=LOST)
    def refuse_for_good(self, node: int, error: ErrorCode) -> None:
        self.world.process(node, error)

    @rule(is_lost=st.booleans())
    def add_partitions(self, is_lost: bool) -> None:
        self.world.add(is_lost=is_lost)

    @rule(commits=st.booleans())
    def end(self, commits: bool) -> None:
        if commits:
            self.world.commit()
        else:
            self.world.abort()
        self.world.begin()

    @rule(commits=st.booleans(), is_by_another=st.booleans())
    def leave_the_end_to_others(self, commits: bool, is_by_another: bool) -> None:
        self.world.prepare_and_decide(commits=commits, is_by_another=is_by_another)
        self.world.begin()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.commit()
            self.world.check_transactions()


TestTransactionsAgainstFaults = TransactionsAgainstFaults.TestCase
TestTransactionsAgainstFaults.settings = settings(stateful_step_count=50)


@pytest.mark.parametrize("is_by_another", [False, True])
def test_without_faults_every_prepared_transaction_ends_as_decided(is_by_another: bool) -> None:
    world = TransactionWorld(2)
    for number in range(20):
        world.begin()
        for each in range(5):
            world.send(each % 2, b"%d-%d" % (number, each))
        assert world.prepare_and_decide(commits=number % 3 > 0, is_by_another=is_by_another)
    assert world.epoch == (40 if is_by_another else 20)
    assert world.outcomes == [number % 3 > 0 for number in range(20)]
    world.check_transactions()


@pytest.mark.parametrize("version", [0, 2])
def test_without_faults_every_transaction_is_committed(version: int) -> None:
    world = TransactionWorld(version)
    for number in range(20):
        world.begin()
        for each in range(5):
            world.send(each % 2, b"%d-%d" % (number, each))
        assert world.commit()
    assert world.epoch == (20 if version == 2 else 0)
    world.check_transactions()
