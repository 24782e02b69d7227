"""A transactional producer's side of the protocol: version 2, a new epoch for each transaction."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from minikafka.coordinator.transaction import EndTransaction, InitProducer, TransactionReply
from minikafka.lab.simulation.coordinators.messages import (
    AskTransactions,
    CommitInTransaction,
    Write,
)
from minikafka.lab.simulation.programs.process import Process, code_of
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import txn_offset_commit
from minikafka.protocol.records import encode_batch

VERSION = 2
OFFSETS_VERSION = 5


class Transactions:
    """Transactions of one transactional id, in one process.

    Args:
        process: who asks.
        state: the partition of the coordinator.
    """

    def __init__(
        self,
        process: Process,
        state: int,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        is_two_phase: bool = False,
    ) -> None:
        self._process = process
        self._state = state
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._is_two_phase = is_two_phase
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[int, int] = {}

    def init(self, *, keeps_prepared: bool = False) -> Generator[Any, Any, TransactionReply]:
        """Fence whoever used the id before; its open transaction is aborted, or kept."""
        command = InitProducer(
            self.transactional_id,
            self._timeout_ms,
            is_two_phase=self._is_two_phase,
            keeps_prepared=keeps_prepared,
        )
        answer = yield from self._process.insist(self._state, AskTransactions(command))
        reply: TransactionReply = answer
        self._take(reply)
        return reply

    def _take(self, reply: TransactionReply) -> None:
        if reply.error_code is not ErrorCode.NONE:
            return
        if (reply.producer_id, reply.producer_epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
            self._sequences.clear()

    def batch(self, number: int, values: Sequence[str]) -> Write:
        """The next batch for a partition; to be sent, again and again, until it is stored."""
        sequence = self._sequences.get(number, 0)
        self._sequences[number] = sequence + len(values)
        batch = encode_batch(
            [(b"key", value.encode(), (), self._process.now_ms()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        return Write(self.transactional_id, bytes(batch), values[0])

    def write(self, number: int, values: Sequence[str]) -> Generator[Any, Any, ErrorCode]:
        answer = yield from self._process.insist(number, self.batch(number, values))
        return code_of(answer)

    def commit_offsets(
        self,
        offsets: int,
        group: tuple[str, str, int],
        topic: str,
        positions: dict[int, int],
    ) -> Generator[Any, Any, ErrorCode]:
        """Commit positions with the transaction; `group` is (id, member id, member epoch)."""
        group_id, member_id, member_epoch = group
        request = txn_offset_commit.Request(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=member_epoch,
            member_id=member_id,
            topics=[
                txn_offset_commit.RequestTopic(
                    name=topic,
                    partitions=[
                        txn_offset_commit.RequestPartition(
                            partition_index=number,
                            committed_offset=offset,
                            committed_metadata=None,
                        )
                        for number, offset in positions.items()
                    ],
                )
            ],
        )
        body = CommitInTransaction(request, OFFSETS_VERSION)
        answer = yield from self._process.insist(offsets, body)
        return code_of(answer)

    def end(self, *, commits: bool) -> Generator[Any, Any, ErrorCode]:
        code = yield from self.end_of(self.producer_id, self.epoch, commits=commits)
        return code

    def end_of(
        self, producer_id: int, epoch: int, *, commits: bool
    ) -> Generator[Any, Any, ErrorCode]:
        """End a transaction of this id, whoever began it."""
        command = EndTransaction(self.transactional_id, producer_id, epoch, commits, VERSION)
        reply = yield from self._process.insist(self._state, AskTransactions(command))
        if (producer_id, epoch) == (self.producer_id, self.epoch):
            self._take(reply)
        return code_of(reply)
