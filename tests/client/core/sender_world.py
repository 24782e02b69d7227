"""A sender, its accumulator and brokers that lose connections, move leaders and answer late."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import metadata as metadata_api
from minikafka.protocol.messages import produce
from minikafka.protocol.records import Compression
from minikafka_client.core import sender
from minikafka_client.core.accumulator import Accumulator, StickyPartitions
from minikafka_client.core.appender import Appender, NoRoom
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import BrokerError, ConnectionLostError
from tests.client.core.partition_log import PartitionLog

TOPIC = "topic"
NODES = (1, 2)


def config(**changes: object) -> sender.SenderConfig:
    settings: dict[str, object] = {
        "acks": -1,
        "is_idempotent": True,
        "linger_s": 0.0,
        "max_in_flight": 5,
        "max_request_size": 1_000_000,
        "request_timeout_ms": 30_000,
        "compression": Compression.NONE,
        "compression_level": None,
    }
    settings.update(changes)
    return sender.SenderConfig(**settings)  # type: ignore[arg-type]  # a test may change any of them


def metadata(leaders: Sequence[int], epochs: Sequence[int] | None = None) -> metadata_api.Response:
    """What the brokers say when each partition has this leader (-1: none)."""
    return metadata_api.Response(
        brokers=[metadata_api.Broker(node_id=node, host="h", port=9000 + node) for node in NODES],
        controller_id=NODES[0],
        topics=[
            metadata_api.ResponseTopic(
                error_code=0,
                name=TOPIC,
                partitions=[
                    metadata_api.Partition(
                        error_code=0,
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=-1 if epochs is None else epochs[index],
                    )
                    for index, leader in enumerate(leaders)
                ],
            )
        ],
    )


@dataclass
class InFlight:
    """A request between the sender and a broker; ``response`` is there once it is processed."""

    request_id: int
    request: produce.Request
    response: produce.Response | None = None


@dataclass
class World:
    """Carries out the sender's effects; a test decides what happens to them.

    Attributes:
        sent: per partition, the values in the order in which they were sent.
        delivered: values by (partition, offset), as acknowledged to the sender.
        in_flight: per node, what is unanswered, oldest first.
        zombies: requests of lost connections that their broker may still process.
    """

    partition_count: int = 2
    settings: sender.SenderConfig = field(default_factory=config)
    batch_size: int = 200
    buffer_memory: int = 100_000
    delivery_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        self.now = 100.0
        self.leaders = [NODES[index % len(NODES)] for index in range(self.partition_count)]
        self.epochs = [0] * self.partition_count
        self.cluster = Cluster([("h", 9001)])
        self.cluster.update(metadata(self.leaders, self.epochs), self.now)
        self.accumulator = Accumulator(
            batch_size=self.batch_size,
            buffer_memory=self.buffer_memory,
            delivery_timeout_s=self.delivery_timeout_s,
        )
        backoff = Backoff(100, 1_000, lambda: 0.5)
        self.sender = sender.Sender(self.settings, self.cluster, self.accumulator, backoff)
        self.opened: list[ProducerBatch] = []
        self.appender = Appender(
            self.cluster,
            self.accumulator,
            StickyPartitions(lambda: 0.0),
            None,
            1_000_000,
            clock=lambda: self.now,
            on_opened=self.opened.append,
            on_full=lambda: None,
        )
        self.batch_size_bytes_max = 1_000_000  # max.message.bytes
        self.logs = [PartitionLog() for _ in range(self.partition_count)]
        self.sent: list[list[bytes]] = [[] for _ in range(self.partition_count)]
        self.handles: list[tuple[ProducerBatch, int, bytes]] = []
        self.in_flight: dict[int, deque[InFlight]] = {node: deque() for node in NODES}
        self.zombies: dict[int, deque[InFlight]] = {node: deque() for node in NODES}
        self.wants_connection: list[int] = []
        self.wants_metadata = False
        self.wants_producer_id = False
        self.next_producer_id = 1000
        self.failed: list[ProducerBatch] = []

    # --- the application ---

    def send(self, partition: int, value: bytes) -> bool:
        """Append a record; False when the buffer is full."""
        try:
            batch, index = self.appender.append(TOPIC, value, None, partition, 1, ())
        except NoRoom:
            return False
        self.handles.append((batch, index, value))
        self.sent[partition].append(value)
        while self.opened:
            self.sender.opened(self.opened.pop())
        return True

    # --- the shell ---

    def run(self, effects: list[sender.Effect]) -> None:
        for effect in effects:
            match effect:
                case sender.SendProduce(node, request_id, request):
                    waiting = InFlight(request_id, _copied(request))
                    self.in_flight[node].append(waiting)
                case sender.Tell(batch):
                    if batch.error is not None:
                        self.failed.append(batch)
                    batch.tell()
                case sender.Connect(node):
                    self.wants_connection.append(node)
                case sender.RefreshMetadata():
                    self.wants_metadata = True
                case sender.RequestProducerId():
                    self.wants_producer_id = True

    def expire(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.run(self.sender.expire(self.now))

    def connect(self, node: int) -> None:
        self.wants_connection.remove(node)
        self.run(self.sender.handle(sender.NodeConnected(node), self.now))

    def refuse_connection(self, node: int) -> None:
        self.wants_connection.remove(node)
        lost = ConnectionLostError("refused")
        self.run(self.sender.handle(sender.NodeFailed(node, lost), self.now))

    def grant_producer_id(self) -> None:
        self.wants_producer_id = False
        self.next_producer_id += 1
        granted = sender.ProducerIdGranted(self.next_producer_id, 0)
        self.run(self.sender.handle(granted, self.now))

    def refuse_producer_id(self, code: ErrorCode) -> None:
        self.wants_producer_id = False
        self.run(self.sender.handle(sender.ProducerIdFailed(BrokerError(code)), self.now))

    def refresh_metadata(self) -> None:
        self.wants_metadata = False
        self.cluster.update(metadata(self.leaders, self.epochs), self.now)
        self.run(self.sender.handle(sender.MetadataChanged(), self.now))

    def move_leader(self, partition: int, node: int) -> None:
        self.leaders[partition] = node
        self.epochs[partition] += 1

    # --- the brokers ---

    def process(
        self, node: int, error: ErrorCode = ErrorCode.NONE, *, append_anyway: bool = False
    ) -> None:
        """The broker works on its oldest request that it has not worked on."""
        for waiting in self.in_flight[node]:
            if waiting.response is None:
                waiting.response = self._processed(node, waiting, error, append_anyway)
                return

    def process_zombie(self, node: int) -> None:
        """The broker handles a request whose connection is closed; the answer is lost."""
        if self.zombies[node]:
            self._processed(node, self.zombies[node].popleft(), ErrorCode.NONE, False)

    def answer(self, node: int) -> None:
        waiting = self.in_flight[node]
        if waiting and waiting[0].response is not None:
            answered = waiting.popleft()
            assert answered.response is not None
            self.run(
                self.sender.handle(
                    sender.Produced(answered.request_id, answered.response), self.now
                )
            )

    def lose_connection(self, node: int) -> None:
        lost = list(self.in_flight[node])
        self.in_flight[node].clear()
        self.zombies[node].extend(each for each in lost if each.response is None)
        for each in lost:
            error = ConnectionLostError("lost")
            self.run(self.sender.handle(sender.Produced(each.request_id, error), self.now))

    def _processed(
        self, node: int, waiting: InFlight, error: ErrorCode, append_anyway: bool
    ) -> produce.Response:
        topics: list[produce.TopicResponse] = []
        for topic in waiting.request.topic_data:
            outcomes: list[produce.PartitionResponse] = []
            for partition in topic.partition_data:
                assert isinstance(partition.records, bytes)
                code, offset = error, -1
                if self.leaders[partition.index] != node:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif len(partition.records) > self.batch_size_bytes_max:
                    code = ErrorCode.MESSAGE_TOO_LARGE
                elif error is ErrorCode.NONE:
                    code, offset = self.logs[partition.index].append(partition.records)
                elif append_anyway:
                    self.logs[partition.index].append(partition.records)
                outcomes.append(
                    produce.PartitionResponse(
                        index=partition.index, error_code=code, base_offset=offset
                    )
                )
            topics.append(produce.TopicResponse(name=topic.name, partition_responses=outcomes))
        return produce.Response(responses=topics)

    # --- all is well again ---

    def settle(self) -> None:
        """Nothing fails from now on: run until every record is decided.

        Raises:
            AssertionError: the sender is stuck.
        """
        for _ in range(2_000):
            self.step_without_faults()
            if not self.accumulator.batches():
                return
        raise AssertionError(f"stuck with {[b.state for b in self.accumulator.batches()]}")

    def recover(self) -> None:
        """Whatever the sender has asked for, it gets."""
        if self.wants_metadata:
            self.refresh_metadata()
        if self.wants_producer_id:
            self.grant_producer_id()
        for node in list(self.wants_connection):
            self.connect(node)

    def step_without_faults(self) -> None:
        self.recover()
        for node in NODES:
            self.process(node)
            self.answer(node)
        deadline = self.sender.deadline()
        busy = any(self.in_flight.values())
        self.expire(max(0.0, deadline - self.now) if deadline is not None and not busy else 0.0)

    # --- what must hold ---

    def check(self) -> None:
        """Whatever happened: nothing twice, nothing out of order, everything acknowledged is there.

        Call it when every record is decided.
        """
        for partition, log in enumerate(self.logs):
            place = {value: index for index, value in enumerate(self.sent[partition])}
            order = [place[value] for value in log.values]
            assert order == sorted(set(order)), f"partition {partition}: {order}"
        for first_batch, first_index, value in self.handles:
            assert first_batch.state is BatchState.DONE
            batch, index = first_batch.part_of(first_index)
            assert batch.state is BatchState.DONE
            if batch.error is None:
                assert self.logs[batch.partition].values[batch.base_offset + index] == value
        assert self.accumulator.used_bytes == 0


def _copied(request: produce.Request) -> produce.Request:
    """What is on the wire does not change when the sender restamps a batch."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            payload = cast("bytearray", partition.records)
            partition.records = bytes(payload)
    return request
