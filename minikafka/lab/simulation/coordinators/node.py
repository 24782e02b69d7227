"""A simulated node that serves transactions and groups, besides what every node does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from minikafka.broker.replicas.partition import Partition, PartitionError
from minikafka.coordinator.group import Ask as GroupAsk
from minikafka.coordinator.group import Now
from minikafka.coordinator.group.responses import transactional_commit_refused
from minikafka.coordinator.group.topics import Topic
from minikafka.coordinator.transaction import (
    AddPartitions,
    Ask,
    SendMarkers,
    TransactionReply,
)
from minikafka.coordinator.transaction.states import TransactionState
from minikafka.lab.simulation.cluster.controller import TOPIC, TOPIC_ID
from minikafka.lab.simulation.cluster.messages import (
    Entries,
    Heartbeat,
    Produce,
    Produced,
)
from minikafka.lab.simulation.cluster.replica import NOW_MS, SimulatedReplica
from minikafka.lab.simulation.coordinators.messages import (
    Answer,
    AskGroup,
    AskTransactions,
    Call,
    CommitInTransaction,
    FetchOffsets,
    ListOpen,
    MarkerWritten,
    Poll,
    Polled,
    Refused,
    WriteMarker,
)
from minikafka.lab.simulation.coordinators.shards import (
    GROUPS,
    TRANSACTIONS,
    CommitWaiter,
    ShardHost,
)
from minikafka.lab.simulation.stage import LabNode
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import (
    ControlType,
    decode_records,
    iter_batches,
    parse_batch_header,
)
from minikafka.storage.errors import LogError
from minikafka.storage.log import Log
from minikafka.storage.markers import read_marker

CALL_TIMEOUT_S = 1.0
GROUP = "readers"
CLIENT_HOST = "/10.0.0.7"
READ_SIZE_BYTES_MAX = 4000
NO_OFFSET = -1
_NOT_LEADER = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_COORDINATOR = Refused(ErrorCode.NOT_COORDINATOR)

Reply = Callable[[Any], None]


NOWHERE = -1


class Layout:
    """Which partitions of the simulated topic are what; `NOWHERE` for what a run does not need.

    Attributes:
        orders: how many partitions, from 0 on, have the records.
        offsets: of the group's shard (in Kafka a partition of ``__consumer_offsets``).
        state: of the transactions' shard (``__transaction_state``).
        results: where results go.
        commits: the Spark sink's commit log.
        count: of all.
    """

    def __init__(
        self, orders: int, *, offsets: bool, state: bool, results: bool, commits: bool
    ) -> None:
        self.orders = orders
        numbers = count(orders)
        self.offsets = next(numbers) if offsets else NOWHERE
        self.state = next(numbers) if state else NOWHERE
        self.results = next(numbers) if results else NOWHERE
        self.commits = next(numbers) if commits else NOWHERE
        self.count = next(numbers)


class HostingReplica(SimulatedReplica):
    """A replica that tells its node when it begins or ceases to lead."""

    @property
    def host(self) -> HostingNode:
        """Its node."""
        assert isinstance(self.node, HostingNode)
        return self.node

    def settle(self, image: PartitionRecord) -> None:
        super().settle(image)
        self.host.role_given(self)

    def rest(self, leader_epoch: int) -> None:
        super().rest(leader_epoch)
        self.host.role_given(self)

    def appended(self) -> None:
        """Others than producers have appended."""
        self._sync_soon()
        self.set_timer()

    def _produce(self, client: int, request: Produce) -> None:
        """Have the coordinator confirm a transaction before its first batch here (KIP-890)."""
        if not request.transactional_id or not self.partition.is_leader:
            super()._produce(client, request)
            return
        header = parse_batch_header(request.batch)
        ids = header.producer_id, header.producer_epoch
        verification = self.log.verify_transaction(*ids, header.base_sequence)
        if verification is None or verification.is_confirmed:
            super()._produce(client, request)
            return

        def confirmed(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                verification.is_confirmed = True
                if self.log.verify_transaction(*ids, header.base_sequence) is not verification:
                    # A marker or another batch came in between: ask again. A broker answers
                    # NOT_ENOUGH_REPLICAS, as Kafka does; here that word is for want of replicas.
                    code = ErrorCode.CONCURRENT_TRANSACTIONS
            if code is ErrorCode.NONE:
                super(HostingReplica, self)._produce(client, request)
            else:
                answer = Produced(self.number, request.correlation, code, -1)
                self.host.send(client, answer)

        self.host.confirm(request.transactional_id, *ids, self, confirmed)


class HostingNode(LabNode):
    """See the module's text.

    Attributes:
        layout: set by who makes it, before it starts.
        hosts: shards by the number of their partition.
        new_producer_id: gives unused ones.
    """

    replica_class = HostingReplica
    layout: Layout
    hosts: dict[int, ShardHost]
    new_producer_id: Callable[[], int]

    def take_producer_id(self) -> int:
        """One that nobody has."""
        return self.new_producer_id()

    def start(self) -> None:
        if not self.is_up:
            self.hosts = {}
            self._replies: dict[int, Reply] = {}
            self._polls: dict[_ParkedPoll, None] = {}
            self._contact_at = self._sent_at = -self.timing.session_timeout_s
            super().start()

    @property
    def clocks(self) -> Now:
        return Now(self.world.now, self.now_ms())

    @property
    def orders(self) -> Topic:
        """The topic as the group's shard sees it."""
        return Topic(TOPIC, TOPIC_ID, self.layout.orders)

    # --- leading ----------------------------------------------------------------------------------

    def role_given(self, replica: HostingReplica) -> None:
        number = replica.number
        host = self.hosts.get(number)
        if replica.partition.is_leader and host is None:
            kinds = {self.layout.offsets: GROUPS, self.layout.state: TRANSACTIONS}
            if number in kinds:
                self.hosts[number] = host = ShardHost(self, replica, kinds[number])
                host.load()
        elif host is not None and not replica.partition.is_leader:
            del self.hosts[number]
            host.resign()

    @property
    def has_lease(self) -> bool:
        """Whether the controller cannot have fenced this node."""
        return self.world.now < self._contact_at + self.timing.session_timeout_s

    def send(self, receiver: int, message: object) -> None:
        if isinstance(message, Heartbeat):
            self._sent_at = self.world.now
        super().send(receiver, message)

    # --- calls ------------------------------------------------------------------------------------

    def receive(self, sender: int, message: object) -> None:
        if isinstance(message, Call | Answer):
            if not self.is_up:
                return
            if self.is_paused:
                self.hold(self.receive, sender, message)
            elif isinstance(message, Call):
                self._serve(sender, message)
            else:
                reply = self._replies.pop(message.correlation, None)
                if reply is not None:
                    reply(message.body)
            return
        if isinstance(message, Entries) and self.is_up and not self.is_paused:
            self._contact_at = self._sent_at
        super().receive(sender, message)

    def forget(self) -> None:
        super().forget()
        self.hosts.clear()

    def call(self, number: int, body: Any, reply: Reply) -> None:
        """Ask the leader of a partition; None is the answer of one that does not answer in time."""
        image = self.image.partition(TOPIC_ID, number)
        if image is None or image.leader == NO_LEADER:
            reply(None)
            return
        correlation = self.next_correlation()
        call = Call(number, correlation, body)
        if image.leader == self.node_id:
            self._serve_here(call, reply)
            return
        self._replies[correlation] = reply
        self.send(image.leader, call)
        self.after(CALL_TIMEOUT_S, self._give_up, correlation)

    def _give_up(self, correlation: int) -> None:
        reply = self._replies.pop(correlation, None)
        if reply is not None:
            reply(None)

    def _serve(self, sender: int, call: Call) -> None:
        boot = self.boot

        def reply(body: Any) -> None:
            if self.is_up and self.boot == boot:
                self.send(sender, Answer(call.correlation, body))

        self._serve_here(call, reply)

    def _serve_here(self, call: Call, reply: Reply) -> None:
        replica = self.replicas.get(call.number)
        if not isinstance(replica, HostingReplica) or not replica.partition.is_leader:
            reply(_NOT_LEADER)
            return
        match call.body:
            case Poll():
                _ParkedPoll(self, replica, call.body, reply).begin()
            case WriteMarker():
                self._write_marker(replica, call.body, reply)
            case _:
                self._serve_coordinator(call, reply)

    def _serve_coordinator(self, call: Call, reply: Reply) -> None:
        host = self.hosts.get(call.number)
        if host is None:
            reply(_NOT_COORDINATOR)
            return
        match call.body:
            case AskGroup(request, version):
                ask = GroupAsk(request, version, "lab", CLIENT_HOST, reply)
                host.carry_out([*host.shard.handle(ask, self.clocks)])
            case FetchOffsets():
                reply(_fetch_offsets(host, call.body))
            case CommitInTransaction():
                self._commit_in_transaction(host, call.body, reply)
            case AskTransactions(command):
                host.carry_out([*host.shard.handle(Ask(command, reply), self.clocks)])
            case ListOpen(prefix):
                reply(_list_open(host, prefix))
            case _:
                raise AssertionError(f"a node got {call}")

    # --- transactions -----------------------------------------------------------------------------

    def confirm(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        replica: HostingReplica,
        then: Callable[[ErrorCode], None],
    ) -> None:
        command = AddPartitions(
            transactional_id,
            producer_id,
            producer_epoch,
            ((TOPIC, replica.number),),
            transaction_version=2,
        )

        def answered(answer: object) -> None:
            if isinstance(answer, TransactionReply):
                then(answer.error_code)
            else:
                then(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        self.call(self.layout.state, AskTransactions(command), answered)

    # --- markers ----------------------------------------------------------------------------------

    def send_marker(
        self, effect: SendMarkers, number: int, then: Callable[[ErrorCode | None], None]
    ) -> None:
        """Have the leader of a partition write a marker."""
        body = WriteMarker(
            effect.producer_id,
            effect.producer_epoch,
            effect.coordinator_epoch,
            effect.transaction_version,
            effect.commits,
        )
        self.call(
            number,
            body,
            lambda answer: then(answer.error_code if isinstance(answer, MarkerWritten) else None),
        )

    def _write_marker(self, replica: HostingReplica, marker: WriteMarker, reply: Reply) -> None:
        partition = replica.partition
        state = self.image.partition(TOPIC_ID, self.layout.state)
        if state is None or marker.coordinator_epoch > state.leader_epoch:
            reply(Refused(ErrorCode.INVALID_REQUEST))  # this node has not heard of it yet
            return
        try:
            partition.check_in_sync()
            result = partition.append_marker(
                ControlType.COMMIT if marker.commits else ControlType.ABORT,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                now_ms=NOW_MS,
            )
        except (PartitionError, LogError) as refusal:
            reply(MarkerWritten(ErrorCode(refusal.error_code)))
            return
        replica.appended()
        ended = None
        host = self.hosts.get(replica.number)
        end_offset = partition.log.log_end_offset if result is None else result.last_offset + 1
        if result is not None and host is not None and not host.is_replaying:
            ended = host.shard.marker_appended(marker.producer_id)

        def settled(code: ErrorCode) -> None:
            if code is ErrorCode.NONE and ended is not None and host is not None:
                host.shard.marker_committed(ended, commits=marker.commits)
            reply(MarkerWritten(code))

        CommitWaiter(partition, end_offset, settled, is_patient=True).begin()

    # --- offsets in transactions ------------------------------------------------------------------

    def _commit_in_transaction(
        self, host: ShardHost, body: CommitInTransaction, reply: Reply
    ) -> None:
        request, version = body.request, body.api_version
        replica = self.replicas[self.layout.offsets]
        assert isinstance(replica, HostingReplica)

        def confirmed(code: ErrorCode) -> None:
            if not host.is_current:
                reply(_NOT_COORDINATOR)
            elif code is not ErrorCode.NONE:
                reply(transactional_commit_refused(request, code))
            else:
                if verification is not None:
                    verification.is_confirmed = True
                ask = GroupAsk(request, version, "lab", CLIENT_HOST, reply)
                host.carry_out([*host.shard.handle(ask, self.clocks)])

        verification = replica.log.verify_transaction(request.producer_id, request.producer_epoch)
        if verification is None or verification.is_confirmed:
            confirmed(ErrorCode.NONE)
        else:
            self.confirm(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                replica,
                confirmed,
            )


def _fetch_offsets(host: ShardHost, body: FetchOffsets) -> dict[int, int] | Refused:
    if host.shard.error is not ErrorCode.NONE or not host.is_surely_current:
        return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    found = host.shard.offset_fetch(
        body.group_id,
        {body.topic: body.numbers},
        require_stable=True,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
    )
    codes = [found.error_code]
    offsets: dict[int, int] = {}
    for topic in found.topics:
        for one in topic.partitions:
            codes.append(one.error_code)
            offsets[one.partition_index] = one.committed_offset
    failed = [code for code in codes if code]
    return Refused(ErrorCode(failed[0])) if failed else offsets


def _list_open(host: ShardHost, prefix: str) -> tuple[tuple[str, int, int], ...] | Refused:
    if host.shard.error is not ErrorCode.NONE or not host.is_surely_current:
        return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return tuple(
        (one.transactional_id, one.producer_id, one.producer_epoch)
        for one in host.shard.entries()
        if one.state is TransactionState.ONGOING and one.transactional_id.startswith(prefix)
    )


class _ParkedPoll:
    """A read that waits until there is something to read."""

    def __init__(
        self, node: HostingNode, replica: HostingReplica, poll: Poll, reply: Reply
    ) -> None:
        self._node = node
        self._replica = replica
        self._poll = poll
        self._reply = reply

    def _bound(self) -> int:
        log = self._replica.log
        return log.last_stable_offset if self._poll.is_read_committed else log.high_watermark

    def begin(self) -> None:
        if self._poll.offset > self._replica.log.log_end_offset:
            self._reply(Refused(ErrorCode.OFFSET_OUT_OF_RANGE))
        elif self._poll.offset < self._bound() or not self._poll.wait_s:
            self._answer()
        else:
            self._replica.partition.waiters[self] = None
            self._node.after(self._poll.wait_s, self._end)

    def notify(self, partition: Partition) -> None:
        """The partition has records, or another role (`Waiter`)."""
        if not partition.is_leader or self._poll.offset < self._bound():
            self._node.after(0.0, self._end)

    def _end(self) -> None:
        if self in self._replica.partition.waiters:
            del self._replica.partition.waiters[self]
            if self._replica.partition.is_leader:
                self._answer()
            else:
                self._reply(_NOT_LEADER)

    def _answer(self) -> None:
        self._reply(read_records(self._replica.log, self._poll, self._bound()))


def read_records(log: Log, poll: Poll, bound: int) -> Polled:
    """What a consumer is given: whole batches; with read_committed without aborted ones."""
    offset = poll.offset
    records: list[tuple[int, str]] = []
    while offset < bound and len(records) < poll.records_max:
        read = log.read(offset, size_bytes_max=READ_SIZE_BYTES_MAX, upper_bound_offset=bound)
        if read.records is None:
            break
        found = _records_of(log, offset, read.next_offset, read.records.read(), poll)
        for one in found:
            if len(records) == poll.records_max:
                return Polled(tuple(records), records[-1][0] + 1, bound)
            records.append(one)
        offset = read.next_offset
    return Polled(tuple(records), offset, bound)


def _records_of(
    log: Log, offset: int, next_offset: int, content: Any, poll: Poll
) -> list[tuple[int, str]]:
    pending = []
    if poll.is_read_committed:
        aborted_here = log.aborted_transactions(offset, next_offset)
        pending = sorted(aborted_here, key=lambda one: -one.first_offset)
    aborted: set[int] = set()
    found: list[tuple[int, str]] = []
    for position, header in iter_batches(content):
        while pending and pending[-1].first_offset <= header.last_offset:
            aborted.add(pending.pop().producer_id)
        if header.is_control:
            marker = read_marker(content, position)
            if marker is not None and marker.control_type is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [
                (record.offset, (record.value or b"").decode())
                for record in decode_records(content, position)
                if record.offset >= offset
            ]
    return found


def committed_values(log: Log) -> list[str]:
    """What a read-committed reader finds, from the beginning up to the last stable offset."""
    bound = log.last_stable_offset
    poll = Poll(log.log_start_offset, True, bound, 0.0)
    return [value for _, value in read_records(log, poll, bound).records]
