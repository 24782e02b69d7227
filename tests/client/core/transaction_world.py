"""A transactional sender, its brokers, and a coordinator that ends transactions."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import parse_batch_header
from minikafka_client.core import sender
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.transaction import TransactionMachine, TransactionState
from minikafka_client.core.transactional_sender import TransactionalSender
from minikafka_client.errors import BrokerError, ConnectionLostError
from tests.client.core.partition_log import PartitionLog
from tests.client.core.sender_world import NODES, World, config

PRODUCER_ID = 1


class TransactionLog(PartitionLog):
    """A partition that asks the coordinator about each batch (KIP-890).

    Attributes:
        owners: of each value, the number of the transaction that it was appended in.
    """

    def __init__(self, world: TransactionWorld, index: int) -> None:
        super().__init__()
        self._world = world
        self._index = index
        self.owners: list[int] = []

    def append(self, batch: bytes | bytearray | memoryview) -> tuple[ErrorCode, int]:
        header = parse_batch_header(batch, must_be_whole=True)
        assert header.is_transactional
        code = self._world.confirm(self._index, header.producer_epoch)
        if code is not ErrorCode.NONE:
            return code, -1
        outcome = super().append(batch)
        self.owners += [self._world.number] * (len(self.values) - len(self.owners))
        return outcome


class TransactionWorld(World):
    """What the trio API does with the coordinator, without waiting.

    Attributes:
        number: of the transaction that the coordinator thinks is next, or open.
        outcomes: of each transaction that has ended, whether it was committed.
        plan: of each transaction, the values sent to each partition.
        added: the partitions that are in the open transaction.
    """

    def __init__(self, version: int, **changes: Any) -> None:
        super().__init__(settings=config(transactional_id="id"), **changes)
        self.version = version
        self.machine = TransactionMachine("id")
        backoff = Backoff(100, 1_000, lambda: 0.5)
        self.sender: TransactionalSender = TransactionalSender(
            self.settings, self.cluster, self.accumulator, backoff, self.machine
        )
        self.transaction_logs = [TransactionLog(self, n) for n in range(self.partition_count)]
        self.logs = list(self.transaction_logs)
        self.epoch = 0
        self.number = 0
        self.outcomes: list[bool] = []
        self.plan: list[list[list[bytes]]] = []
        self.added: set[int] = set()
        self.asked_to_add: list[frozenset[int]] = []
        self._grant()

    # --- the coordinator ---

    def _grant(self) -> None:
        self.machine.granted(PRODUCER_ID, self.epoch, self.version)
        self._tell_sender()

    def _tell_sender(self) -> None:
        granted = sender.ProducerIdGranted(self.machine.producer_id, self.machine.producer_epoch)
        self.run(self.sender.handle(granted, self.now))

    def confirm(self, partition: int, epoch: int) -> ErrorCode:
        """Whether a batch of this epoch belongs to the open transaction."""
        if epoch != self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.version >= 2:
            self.added.add(partition)
        return ErrorCode.NONE if partition in self.added else ErrorCode.INVALID_TXN_STATE

    def add(self, error: ErrorCode = ErrorCode.NONE, *, is_lost: bool = False) -> None:
        """Answer AddPartitionsToTxn; ``is_lost``: it is done, and the answer is lost."""
        if not self.asked_to_add:
            return
        partitions = self.asked_to_add.pop(0)
        if not error:
            self.added |= partitions
        failure = BrokerError(error) if error else ConnectionLostError("lost") if is_lost else None
        self.run(self.sender.handle(sender.PartitionsAdded(failure), self.now))

    def _end(self, *, commits: bool) -> None:
        self.outcomes.append(commits)
        self.number += 1
        if self.version >= 2:
            self.epoch += 1
        self.added = set()

    # --- the application ---

    def begin(self) -> None:
        self.machine.begin()
        self.plan.append([[] for _ in range(self.partition_count)])

    def send(self, partition: int, value: bytes) -> bool:
        self.machine.check_open()
        is_sent = super().send(partition, value)
        if is_sent:
            self.plan[-1][partition].append(value)
        return is_sent

    def run(self, effects: list[sender.Effect]) -> None:
        super().run(effects)
        for effect in effects:
            if isinstance(effect, sender.AddPartitions):
                self.asked_to_add.append(frozenset(each.partition for each in effect.partitions))

    def recover(self) -> None:
        super().recover()
        while self.asked_to_add:
            self.add()

    def commit(self) -> bool:
        """Commit, or abort if that cannot be; returns which."""
        if self.machine.state is TransactionState.OPEN:
            self.machine.commit()
            self.accumulator.close_all()
            self.settle()
        if self.machine.state is not TransactionState.COMMITTING:
            self.abort()
            return False
        if self.machine.has_begun:
            self._end(commits=True)
            epoch = self.epoch
            self.machine.ended(PRODUCER_ID, epoch)
            self._tell_sender()
        else:
            self._nothing_happened(commits=True)
            self.machine.ended()
        return True

    def prepare_and_decide(self, *, commits: bool, is_by_another: bool) -> bool:
        """Prepare; the same producer decides, or one that recovers it. Returns whether it was."""
        if self.machine.state is TransactionState.OPEN:
            self.machine.prepare()
            self.accumulator.close_all()
            self.settle()
        if self.machine.state is not TransactionState.PREPARING:
            self.abort()
            return False
        prepared = self.machine.is_prepared()
        if not prepared:
            self._nothing_happened(commits=commits)
            self.machine.ended()
            return True
        if is_by_another and self.version >= 2:
            self.machine.fail(ConnectionLostError("the process is killed"))
            self.machine.reinitialize()
            self.epoch += 1
            self.machine.granted(PRODUCER_ID, self.epoch, self.version, prepared)
            self._tell_sender()
        assert self.machine.prepared == prepared
        self._end(commits=commits)
        self.machine.ended(PRODUCER_ID, self.epoch)
        self._tell_sender()
        return True

    def abort(self) -> None:
        self.machine.abort()
        self.asked_to_add.clear()
        self.settle()
        if not self.machine.has_begun:
            assert not self.machine.needs_new_epoch
            self._nothing_happened(commits=False)
            self.machine.ended()
            return
        self._end(commits=False)
        if self.machine.needs_new_epoch and self.version < 2:
            self.epoch += 1
            self._grant()
        else:
            self.machine.ended(PRODUCER_ID, self.epoch)
            self._tell_sender()

    def _nothing_happened(self, *, commits: bool) -> None:
        self.outcomes.append(commits)
        self.number += 1

    # --- what must hold ---

    def check_transactions(self) -> None:
        """Committed transactions are there, whole, once and in order; nothing is in another's.

        Call it when the last transaction has ended.
        """
        for node in NODES:
            while self.zombies[node]:
                self.process_zombie(node)
        for partition, log in enumerate(self.transaction_logs):
            for number, is_committed in enumerate(self.outcomes):
                pairs = zip(log.values, log.owners, strict=True)
                found = [value for value, owner in pairs if owner == number]
                planned = self.plan[number][partition]
                if is_committed:
                    assert found == planned
                else:
                    assert set(found) <= set(planned)
            assert all(owner < len(self.outcomes) for owner in log.owners)
        assert self.accumulator.used_bytes == 0
