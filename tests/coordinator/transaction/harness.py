"""A transaction shard with everything that a shell does for it, step by step or immediately."""

from __future__ import annotations

from collections import deque
from typing import Any

from minikafka.coordinator.transaction import (
    AddPartitions,
    Append,
    Ask,
    Command,
    Effect,
    EndTransaction,
    InitProducer,
    Now,
    Reply,
    SendMarkers,
    TransactionConfig,
    TransactionEntry,
    TransactionReply,
    TransactionShard,
    TransactionState,
)
from minikafka.protocol.errors import ErrorCode

TID = "job-1"
P0, P1, P2 = ("t", 0), ("t", 1), ("u", 0)


class Coordinator:
    """One shard, its log and its clocks.

    Attributes:
        log: records of the partition.
        markers: what was sent, in order.
        commits_at_once: appended records are committed; else `commit` does it.
        writes_markers: markers are reported as written; else the test does.
        ids_left: producer ids at hand.
    """

    def __init__(self, **config: Any) -> None:
        self.config = TransactionConfig(**{"completion_linger_ms": 0, **config})
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[SendMarkers] = []
        self.commits_at_once = True
        self.writes_markers = True
        self.append_error: ErrorCode | None = None
        self.ids_left = 1_000
        self.next_producer_id = 100
        self.monotonic_s = 1_000.0
        self.wall_ms = 1_700_000_000_000
        self.epoch = 0
        self.replies: dict[object, TransactionReply] = {}
        self._uncommitted: deque[tuple[int, int]] = deque()
        self._tokens = 0
        self.shard = self._new_shard()
        self.carry_out(self.shard.loaded(self.epoch, self.now))

    @property
    def now(self) -> Now:
        return Now(self.monotonic_s, self.wall_ms)

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.config, take_producer_id=self._take_producer_id)

    def _take_producer_id(self) -> int | None:
        if not self.ids_left:
            return None
        self.ids_left -= 1
        self.next_producer_id += 1
        return self.next_producer_id

    def pass_time(self, seconds: float) -> None:
        """Advance both clocks, and fire the timers that become due."""
        end = self.monotonic_s + seconds
        while (deadline := self.shard.deadline()) is not None and deadline <= end:
            self._set_clock(max(deadline, self.monotonic_s))
            self.carry_out(self.shard.expire(self.now))
        self._set_clock(end)

    def stall(self, seconds: float) -> None:
        """Advance both clocks, and fire no timer: the broker was busy."""
        self._set_clock(self.monotonic_s + seconds)

    def _set_clock(self, monotonic_s: float) -> None:
        self.wall_ms += round((monotonic_s - self.monotonic_s) * 1000)
        self.monotonic_s = monotonic_s

    def carry_out(self, effects: list[Effect]) -> None:
        """Do what a shell does, in order."""
        for effect in effects:
            match effect:
                case Reply(token, reply):
                    assert token not in self.replies, "one reply for each ask"
                    self.replies[token] = reply
                case Append(records, write_id):
                    if self.append_error is not None:
                        failed = self.shard.append_failed(write_id, self.append_error, self.now)
                        self.carry_out(failed)
                        continue
                    self.log += records
                    self.shard.appended(write_id)
                    self._uncommitted.append((write_id, len(self.log)))
                    if self.commits_at_once:
                        self.commit()
                case SendMarkers():
                    self.markers.append(effect)
                    if self.writes_markers:
                        self.mark(effect)

    def commit(self) -> None:
        """The high watermark reaches the end of the log."""
        while self._uncommitted:
            write_id, _ = self._uncommitted.popleft()
            self.carry_out(self.shard.committed(write_id, self.now))

    def commit_one(self) -> None:
        """The high watermark passes the oldest record that it had not passed."""
        write_id, _ = self._uncommitted.popleft()
        self.carry_out(self.shard.committed(write_id, self.now))

    def mark(self, effect: SendMarkers, *partitions: tuple[str, int]) -> None:
        """Report markers as written: all of an effect, or some."""
        self.carry_out(
            self.shard.markers_written(
                effect.transactional_id,
                effect.producer_id,
                effect.producer_epoch,
                partitions or effect.partitions,
                self.now,
            )
        )

    def fail_over(self, *, lost: int = 0) -> None:
        """Another broker takes over; the last records may not have been committed."""
        self.carry_out(self.shard.resigned())
        self._uncommitted.clear()
        if lost:
            del self.log[-lost:]
        self.epoch += 1
        self.shard = self._new_shard()
        for key, value in self.log:
            self.shard.replay(key, value)
        self.carry_out(self.shard.loaded(self.epoch, self.now))

    # --- asking ------------------------------------------------------------------------------

    def begin(self, command: Command) -> int:
        """Ask without expecting a reply yet; returns the token."""
        self._tokens += 1
        self.carry_out(self.shard.handle(Ask(command, self._tokens), self.now))
        return self._tokens

    def ask(self, command: Command) -> TransactionReply:
        """Ask; the reply must come immediately."""
        return self.replies[self.begin(command)]

    def init(self, timeout_ms: int = 60_000, **fields: Any) -> tuple[int, int]:
        """InitProducerId, which must succeed; returns producer id and epoch."""
        reply = self.ask(InitProducer(TID, timeout_ms, **fields))
        assert reply.error_code is ErrorCode.NONE
        return reply.producer_id, reply.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: tuple[str, int], **fields: Any
    ) -> ErrorCode:
        """AddPartitionsToTxn."""
        return self.ask(AddPartitions(TID, *producer, partitions, **fields)).error_code

    def end(
        self, producer: tuple[int, int], *, commits: bool = True, version: int = 0
    ) -> TransactionReply:
        """EndTxn."""
        return self.ask(EndTransaction(TID, *producer, commits, version))

    @property
    def entry(self) -> TransactionEntry:
        """The stored entry."""
        entry = self.shard.entry(TID)
        assert entry is not None
        return entry

    def is_in(self, state: TransactionState) -> bool:
        """Whether the transaction is in a state."""
        return self.entry.state is state
