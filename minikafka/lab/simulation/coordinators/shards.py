"""A coordinator's shard on a simulated node: what `minikafka.broker.coordinators.runtime` is there.

The leader of the shard's partition replays its log, serves once all of that is committed, appends
what the shard decides, and releases replies at the high watermark. When another node leads, the
shard resigns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from minikafka.broker.replicas.partition import Partition, PartitionError
from minikafka.coordinator.group import Append, GroupConfig, Now
from minikafka.coordinator.group import Reply as GroupReply
from minikafka.coordinator.group.shard import GroupShard
from minikafka.coordinator.group.topics import GroupSettings, Topic, TopicTable
from minikafka.coordinator.transaction import Reply as TransactionAnswer
from minikafka.coordinator.transaction import (
    SendMarkers,
    TransactionConfig,
    TransactionReply,
    TransactionShard,
)
from minikafka.lab.simulation.cluster.replica import NOW_MS
from minikafka.lab.simulation.kit.world import World
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import (
    BatchHeader,
    ControlType,
    Record,
    decode_records,
    encode_batch,
    iter_batches,
)
from minikafka.storage.errors import LogError
from minikafka.storage.log import Log
from minikafka.storage.markers import read_marker

LOAD_SIZE_BYTES = 1 << 20
MARKER_AGAIN_S = 0.1
SESSION_S = 1.5
HEARTBEAT_S = 0.4
SETTINGS = GroupSettings(
    consumer_session_timeout_ms=round(SESSION_S * 1000),
    consumer_heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
)
APPEND_VERSION = 13


class ShardReplica(Protocol):
    """The replica with a shard's log, as far as it needs one; `HostingReplica` is one."""

    number: int

    @property
    def partition(self) -> Partition: ...

    @property
    def log(self) -> Log: ...

    def appended(self) -> None:
        """The shard has appended."""
        ...


class ShardNode(Protocol):
    """The node of a shard, as far as it needs one; `HostingNode` is one.

    Attributes:
        boot: counts the node's lives.
        hosts: the shards here, by the number of their partition.
    """

    node_id: int
    boot: int
    world: World
    hosts: dict[int, ShardHost]

    @property
    def orders(self) -> Topic:
        """The topic that members of groups read."""
        ...

    @property
    def clocks(self) -> Now: ...

    @property
    def has_lease(self) -> bool:
        """Whether the controller cannot have fenced it."""
        ...

    def take_producer_id(self) -> int:
        """One that nobody has."""
        ...

    def next_correlation(self) -> int: ...

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        """Call later, in this life."""
        ...

    def after(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        """Call later, as `at`."""
        ...

    def send_marker(
        self, effect: SendMarkers, number: int, then: Callable[[ErrorCode | None], None]
    ) -> None:
        """Have the leader of a partition write a marker."""
        ...


class Kind(NamedTuple):
    """How the shards of one coordinator differ from those of the other."""

    new: Callable[[ShardNode], Any]
    loaded: Callable[[Any, int, Now], list[Any]]
    replay: Callable[[Any, BatchHeader, Record], None]
    replay_marker: Callable[[Any, int, bool], None]


def _new_group_shard(node: ShardNode) -> GroupShard:
    return GroupShard(
        GroupConfig(),
        new_id=lambda: f"{node.node_id}-{node.boot}-{node.next_correlation()}",
        topics=TopicTable([node.orders]),
        settings_of=lambda _: SETTINGS,
    )


def _replay_group(shard: GroupShard, header: BatchHeader, record: Record) -> None:
    assert record.key is not None
    producer_id = header.producer_id if header.is_transactional else -1
    shard.replay(record.key, record.value, producer_id)


def _replay_transaction(shard: TransactionShard, _: BatchHeader, record: Record) -> None:
    assert record.key is not None
    shard.replay(record.key, record.value)


def _loaded_group(shard: GroupShard, _: int, now: Now) -> list[Any]:
    return [*shard.loaded(now)]


def _replay_group_marker(shard: GroupShard, producer_id: int, commits: bool) -> None:
    shard.replay_marker(producer_id, commits=commits)


def _new_transaction_shard(node: ShardNode) -> TransactionShard:
    config = TransactionConfig(is_two_phase_commit_enabled=True)
    return TransactionShard(config, take_producer_id=node.take_producer_id)


def _loaded_transactions(shard: TransactionShard, epoch: int, now: Now) -> list[Any]:
    return [*shard.loaded(epoch, now)]


def _ignore_marker(shard: TransactionShard, producer_id: int, commits: bool) -> None:
    """No transaction writes to this partition."""


GROUPS = Kind(_new_group_shard, _loaded_group, _replay_group, _replay_group_marker)
TRANSACTIONS = Kind(
    _new_transaction_shard, _loaded_transactions, _replay_transaction, _ignore_marker
)


class CommitWaiter:
    """Calls back when an offset is committed, or may never be (`OffsetWaiter`).

    Args:
        is_patient: wait on while too few replicas are in sync.
    """

    __slots__ = ("_is_patient", "_offset", "_partition", "_then")

    def __init__(
        self,
        partition: Partition,
        offset: int,
        then: Callable[[ErrorCode], None],
        *,
        is_patient: bool,
    ) -> None:
        self._partition = partition
        self._offset = offset
        self._then = then
        self._is_patient = is_patient

    def begin(self) -> None:
        if self._partition.log.high_watermark >= self._offset:
            self._then(ErrorCode.NONE)
        else:
            self._partition.wait_for_commit(self, self._offset)

    def settle(self, error_code: ErrorCode) -> None:
        if self._is_patient and error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._partition.wait_for_commit(self, self._offset)
        else:
            self._then(error_code)


class ShardHost:
    """See the module's text.

    Attributes:
        shard: a `GroupShard` or `TransactionShard`.
        is_replaying: it has not read the whole log yet.
    """

    def __init__(self, node: ShardNode, replica: ShardReplica, kind: Kind) -> None:
        self._node = node
        self._replica = replica
        self._kind = kind
        self._timer_at: float | None = None
        self.shard = kind.new(node)
        self.is_replaying = True

    @property
    def is_current(self) -> bool:
        return self._node.hosts.get(self._replica.number) is self

    @property
    def is_surely_current(self) -> bool:
        """Whether nobody else can lead: answers from memory hold."""
        return self._node.has_lease and not self._replica.partition.is_frozen

    # --- becoming and ceasing to be the coordinator -----------------------------------------------

    def load(self) -> None:
        log = self._replica.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = log.read(
                offset, size_bytes_max=LOAD_SIZE_BYTES, upper_bound_offset=log.log_end_offset
            )
            if found.records is None:
                break
            self._replay(found.records.read())
            offset = found.next_offset
        self.is_replaying = False
        self._wait_for_commit(log.log_end_offset, self._loaded)

    def _replay(self, batches: Any) -> None:
        for position, header in iter_batches(batches):
            if header.is_control:
                marker = read_marker(batches, position)
                if marker is not None:
                    commits = marker.control_type is ControlType.COMMIT
                    self._kind.replay_marker(self.shard, header.producer_id, commits)
                continue
            for record in decode_records(batches, position):
                if record.key is not None:
                    self._kind.replay(self.shard, header, record)

    def _loaded(self, error_code: ErrorCode) -> None:
        if error_code is ErrorCode.NONE and self.is_current:
            epoch = self._replica.partition.leader_epoch
            self._node.world.note(
                "node {} coordinates {}", self._node.node_id, self._replica.number
            )
            self.carry_out(self._kind.loaded(self.shard, epoch, self._node.clocks))

    def resign(self) -> None:
        self.carry_out(self.shard.resigned())

    # --- effects and time -------------------------------------------------------------------------

    def carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Append():
                    self._append(effect)
                case GroupReply(token, response):
                    self._put(token, response)
                case TransactionAnswer(token, reply, is_from_memory):
                    is_sure = not is_from_memory or self.is_surely_current
                    self._put(
                        token, reply if is_sure else TransactionReply(ErrorCode.NOT_COORDINATOR)
                    )
                case SendMarkers():
                    for place in effect.partitions:
                        self._send_marker(effect, place[1])
                case _:
                    raise TypeError(effect)
        self._set_timer()

    def _put(self, token: Any, response: object) -> None:
        token(response)

    def _append(self, effect: Append) -> None:
        shard, partition = self.shard, self._replica.partition
        batch = encode_batch(
            [(key, value, (), NOW_MS) for key, value in effect.records],
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            is_transactional=effect.producer_id >= 0,
        )
        try:
            partition.check_in_sync()
            result = partition.append(
                memoryview(batch), now_ms=NOW_MS, version=APPEND_VERSION, from_client=False
            )
        except (PartitionError, LogError) as error:
            code = ErrorCode(error.error_code)
            self.carry_out(shard.append_failed(effect.write_id, code, self._node.clocks))
            return
        shard.appended(effect.write_id)
        self._replica.appended()

        def settled(error_code: ErrorCode) -> None:
            now = self._node.clocks
            if error_code is ErrorCode.NONE:
                self.carry_out(shard.committed(effect.write_id, now))
            else:
                self.carry_out(shard.append_failed(effect.write_id, error_code, now))

        self._wait_for_commit(result.last_offset + 1, settled)

    def _wait_for_commit(self, offset: int, then: Callable[[ErrorCode], None]) -> None:
        CommitWaiter(self._replica.partition, offset, then, is_patient=True).begin()

    def _set_timer(self) -> None:
        deadline = self.shard.deadline()
        if deadline is not None and (self._timer_at is None or deadline < self._timer_at):
            time = max(deadline, self._node.world.now)
            self._timer_at = time
            self._node.at(time, self._expire, time)

    def _expire(self, time: float) -> None:
        if self._timer_at == time:
            self._timer_at = None
            if self.is_current:
                self.carry_out(self.shard.expire(self._node.clocks))

    # --- markers ----------------------------------------------------------------------------------

    def _send_marker(self, effect: SendMarkers, number: int) -> None:
        """Have a partition's leader write a marker; try again until it is there."""
        if not self.is_current:
            return

        def answered(code: ErrorCode | None) -> None:
            if not self.is_current or code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                return
            if code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH):
                place = next(one for one in effect.partitions if one[1] == number)
                self.carry_out(
                    self.shard.markers_written(
                        effect.transactional_id,
                        effect.producer_id,
                        effect.producer_epoch,
                        [place],
                        self._node.clocks,
                    )
                )
            else:
                self._node.after(MARKER_AGAIN_S, self._send_marker, effect, number)

        self._node.send_marker(effect, number, answered)
