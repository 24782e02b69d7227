"""A transaction coordinator, partitions and producers on a network that loses and repeats.

Real: `TransactionShard`, and one storage `Log` on a `MemoryDisk` for each partition. Simulated:
time, the network (every message is delayed, some are lost, some come twice), failover of the
coordinator (its last records may be lost, and the old one may go on for a while without knowing of
the new one) and of partition leaders (what was not committed may be
cut off), producers of both generations, zombies, clocks that jump. One seed is one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from minikafka.coordinator.transaction import (
    AddPartitions,
    Append,
    Ask,
    Command,
    Now,
    Reply,
    SendMarkers,
    TopicPartition,
    TransactionConfig,
    TransactionReply,
    TransactionShard,
)
from minikafka.lab.simulation.kit import world as kit
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import ControlType, parse_batch_header
from minikafka.storage.disk import FileCache
from minikafka.storage.errors import InvalidTransactionState, LogError
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.memory_disk import MemoryDisk

START_MS = 1_700_000_000_000
PLACES: tuple[TopicPartition, ...] = (("t", 0), ("t", 1), ("t", 2))
TIMEOUT_MS = 3_000

Answer = Callable[[Any], None]


class Faults:
    """How bad it gets; `mutants` change the guards, not this."""

    loss = 0.08
    repetition = 0.10
    delay_s = (0.001, 0.05)
    late = 0.05
    late_s = (0.5, 6.0)
    slow_commits = 0.15
    slow_s = (0.03, 0.8)
    cut_off = 0.5
    cut_off_s = (0.2, 4.0)
    stale_addresses = 0.3
    beside = 0.5


class World(kit.World):
    """Time, dice and the network.

    Attributes:
        is_calm: messages are no longer lost or late.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.wall_jump_ms = 0
        self.is_calm = False

    @property
    def clocks(self) -> Now:
        return Now(self.now, self.wall_ms)

    @property
    def wall_ms(self) -> int:
        """The clock that may jump."""
        return START_MS + round(self.now * 1000) + self.wall_jump_ms

    def say(self, words: str) -> None:
        self.note("{}", words)

    def send(self, action: Callable[[], None]) -> None:
        """Bring a message: late, twice, or not at all."""
        copies = 1
        if not self.is_calm:
            if self.dice.random() < Faults.loss:
                return
            copies += self.dice.random() < Faults.repetition
        for _ in range(copies):
            is_late = not self.is_calm and self.dice.random() < Faults.late
            self.after(self.dice.uniform(*(Faults.late_s if is_late else Faults.delay_s)), action)

    def send_in_order(self, action: Callable[[], None]) -> None:
        """Bring a message soon and once, or not at all."""
        if self.is_calm or self.dice.random() >= Faults.loss:
            self.after(Faults.delay_s[1], action)


class Coordinator:
    """The shard of one partition of ``__transaction_state``, and the log under it."""

    def __init__(self, world: World, partitions: dict[TopicPartition, Partition]) -> None:
        self._world = world
        self._partitions = partitions
        self._log: list[tuple[bytes, bytes | None]] = []
        self._pending: list[tuple[int, int]] = []
        self._committed = 0
        self._epoch = 0
        self._next_producer_id = 1
        self._cut_off: TransactionShard | None = None
        self.shard = self._new_shard()
        self._carry_out(self.shard.loaded(0, world.clocks))
        self._tick()

    def _new_shard(self) -> TransactionShard:
        def take() -> int:
            self._next_producer_id += 1
            return self._next_producer_id

        config = TransactionConfig(write_timeout_ms=1_000)
        return TransactionShard(config, take_producer_id=take)

    def _tick(self) -> None:
        for shard in (self.shard, self._cut_off):
            deadline = shard.deadline() if shard is not None else None
            if shard is not None and deadline is not None and deadline <= self._world.now:
                self._carry_out(shard.expire(self._world.clocks), shard)
        self._world.after(0.05, self._tick)

    def ask(self, command: Command, answer: Answer) -> None:
        shard = self.shard
        if self._cut_off is not None and self._world.dice.random() < Faults.stale_addresses:
            shard = self._cut_off

        def reply(found: TransactionReply) -> None:
            if (
                isinstance(command, AddPartitions)
                and not command.verifies_only
                and found.error_code is ErrorCode.NONE
            ):
                self._note_added(command)
            self._world.send(lambda: answer(found))

        self._carry_out(shard.handle(Ask(command, reply), self._world.clocks), shard)

    def _note_added(self, command: AddPartitions) -> None:
        """Tell the partitions that are led on the coordinator's broker; see `added`."""
        for place in command.partitions:
            if self._partitions[place].is_beside_coordinator:
                self._partitions[place].added(command)

    def _is_sure(self, shard: TransactionShard) -> bool:
        """Whether a shard may answer from memory: the lease of an old one is over."""
        return shard is self.shard

    def _carry_out(self, effects: Sequence[object], shard: TransactionShard | None = None) -> None:
        if shard is None:
            shard = self.shard
        for effect in effects:
            match effect:
                case Reply(token, reply, is_from_memory):
                    callback: Any = token
                    is_true = not is_from_memory or self._is_sure(shard)
                    callback(reply if is_true else TransactionReply(ErrorCode.NOT_COORDINATOR))
                case Append(_, write_id) if shard is not self.shard:
                    shard.appended(write_id)  # to a log without replicas
                case Append(records, write_id):
                    self._log += records
                    self.shard.appended(write_id)
                    self._pending.append((write_id, len(self._log)))
                    self.wait_for_commit(write_id)
                case SendMarkers():
                    self._world.say(
                        f"markers {effect.producer_id}/{effect.producer_epoch} for "
                        f"{', '.join(f'{topic}-{n}' for topic, n in effect.partitions)}"
                    )
                    for place in effect.partitions:
                        self._send_marker(shard, effect, place)
                case _:
                    raise TypeError(effect)

    def wait_for_commit(self, write_id: int) -> None:
        """The high watermark passes a record a little later; sometimes a replica is slow."""
        del write_id
        dice = self._world.dice
        is_slow = not self._world.is_calm and dice.random() < Faults.slow_commits
        self._world.after(
            dice.uniform(*(Faults.slow_s if is_slow else (0.001, 0.03))), self._commit
        )

    def _commit(self) -> None:
        if self._pending:
            write_id, self._committed = self._pending.pop(0)
            self._carry_out(self.shard.committed(write_id, self._world.clocks))

    def _send_marker(
        self, shard: TransactionShard, effect: SendMarkers, place: TopicPartition
    ) -> None:
        """Send a marker until a leader confirms that it is written, even after a failover."""
        done: list[bool] = []

        def answered(is_written: bool) -> None:
            if is_written and not done:
                done.append(True)
                if shard is self.shard:
                    self._carry_out(
                        shard.markers_written(
                            effect.transactional_id,
                            effect.producer_id,
                            effect.producer_epoch,
                            [place],
                            self._world.clocks,
                        )
                    )

        def attempt(number: int) -> None:
            is_stale = shard is not self.shard and number > 20
            if not done and not is_stale:
                partition = self._partitions[place]
                send = self._world.send
                if effect.transaction_version < 2:
                    # Where transactions share an epoch, a marker that is delayed until the next one
                    # ends that: Kafka's hole, which its clients of version 2 close (KIP-890). What
                    # is simulated for older ones is a connection that keeps its order.
                    send = self._world.send_in_order
                send(lambda: partition.write_marker(effect, answered))
                self._world.after(0.2, lambda: attempt(number + 1))

        attempt(0)

    def fail_over(self) -> None:
        """Another broker leads: what was not committed may be lost with the old one."""
        self._hear_of_the_next()
        dice = self._world.dice
        if not self._world.is_calm and dice.random() < Faults.cut_off:
            self._cut_off = self.shard
            self._world.after(dice.uniform(*Faults.cut_off_s), self._hear_of_the_next)
        else:
            self._carry_out(self.shard.resigned())
        self._pending.clear()
        kept = self._world.dice.randint(self._committed, len(self._log))
        del self._log[kept:]
        self._committed = kept
        self._epoch += 1
        for partition in self._partitions.values():
            partition.is_beside_coordinator = dice.random() < Faults.beside
        self.shard = self._new_shard()
        for key, value in self._log:
            self.shard.replay(key, value)
        self._world.say(f"coordinator: epoch {self._epoch}, {kept} records")
        self._carry_out(self.shard.loaded(self._epoch, self._world.clocks))

    def _hear_of_the_next(self) -> None:
        """The old broker learns that it has been deposed."""
        shard, self._cut_off = self._cut_off, None
        if shard is not None:
            self._carry_out(shard.resigned(), shard)


class Partition:
    """A partition that takes records and markers, and whose leaders change."""

    def __init__(self, world: World, place: TopicPartition, coordinator: list[Coordinator]) -> None:
        self._world = world
        self.place = place
        self._coordinator = coordinator
        self._leader_epoch = 0
        self.is_beside_coordinator = world.dice.random() < Faults.beside
        disk = MemoryDisk(Random(1))
        disk.make_directory("d")
        disk.sync_directory("d")
        self.log = Log.open(FileCache(disk, 4), "d", LogConfig(), now_ms=START_MS)

    def produce(self, transactional_id: str, batch: bytes, answer: Answer, *, adds: bool) -> None:
        """A producer's request: have the transaction confirmed if need be, then append."""
        header = parse_batch_header(batch)
        verification = self.log.verify_transaction(header.producer_id, header.producer_epoch)
        if verification is not None and verification.added_to == transactional_id:
            verification.is_confirmed = True
        if verification is None or verification.is_confirmed:
            self._append(batch, answer)
            return

        def confirmed(reply: TransactionReply) -> None:
            if reply.error_code is ErrorCode.NONE:
                verification.is_confirmed = True
                # A marker may have come in between; then the producer has to ask again.
                self._append(batch, answer, ErrorCode.NOT_ENOUGH_REPLICAS)
            else:
                self._world.send(lambda: answer(reply.error_code))

        command = AddPartitions(
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            (self.place,),
            verifies_only=not adds,
            transaction_version=2 if adds else 0,
        )
        self._world.send(lambda: self._coordinator[0].ask(command, confirmed))

    def added(self, command: AddPartitions) -> None:
        """The coordinator, on the same broker, has added this partition to a transaction."""
        verification = self.log.verify_transaction(command.producer_id, command.producer_epoch)
        if verification is not None:
            verification.added_to = command.transactional_id

    def _append(
        self,
        batch: bytes,
        answer: Answer,
        void: ErrorCode = ErrorCode.INVALID_TXN_STATE,
    ) -> None:
        try:
            self.log.append_as_leader(
                batch, leader_epoch=self._leader_epoch, now_ms=self._world.wall_ms
            )
        except InvalidTransactionState:
            self._world.send(lambda: answer(void))
            return
        except LogError as error:
            code = ErrorCode(error.error_code)
            self._world.send(lambda: answer(code))
            return
        self._when_committed(self.log.log_end_offset, lambda: answer(ErrorCode.NONE))

    def write_marker(self, effect: SendMarkers, answer: Callable[[bool], None]) -> None:
        """A coordinator's request."""
        try:
            result = self.log.append_marker(
                ControlType.COMMIT if effect.commits else ControlType.ABORT,
                producer_id=effect.producer_id,
                producer_epoch=effect.producer_epoch,
                coordinator_epoch=effect.coordinator_epoch,
                transaction_version=effect.transaction_version,
                leader_epoch=self._leader_epoch,
                now_ms=self._world.wall_ms,
            )
        except LogError as error:
            is_past = ErrorCode(error.error_code) is ErrorCode.INVALID_PRODUCER_EPOCH
            self._world.say(f"{self.place}: a marker is refused: {error}")
            self._world.send(lambda: answer(is_past))
            return
        words = "commits" if effect.commits else "aborts"
        at = "again" if result is None else f"at {result.base_offset}"
        self._world.say(f"{self.place}: {effect.producer_id}/{effect.producer_epoch} {words} {at}")
        self._when_committed(self.log.log_end_offset, lambda: answer(True))

    def _when_committed(self, offset: int, answer: Callable[[], None]) -> None:
        """Answer when the high watermark reaches an offset, unless another leader comes before."""
        epoch = self._leader_epoch

        def replicate() -> None:
            if self._leader_epoch == epoch:
                self.log.high_watermark = max(self.log.high_watermark, offset)
                self._world.send(answer)

        self._world.after(self._world.dice.uniform(0.001, 0.03), replicate)

    def fail_over(self) -> None:
        """Another replica leads; it may lack what was not committed."""
        log = self.log
        log.truncate_to(self._world.dice.randint(log.high_watermark, log.log_end_offset))
        self._leader_epoch += 1
        self.is_beside_coordinator = self._world.dice.random() < Faults.beside
        log.leader_epochs.assign(self._leader_epoch, log.log_end_offset)
        # Verifications were the old leader's own.
        log.producer_state.transactions.forget_verifications()
        self._world.say(
            f"{self.place}: leader epoch {self._leader_epoch}, end {log.log_end_offset}"
        )

    def settle(self) -> None:
        """Everything that is there is replicated."""
        self.log.high_watermark = self.log.log_end_offset
