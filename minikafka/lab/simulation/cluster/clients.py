"""Producers and consumers of a simulated cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Protocol

from minikafka.lab.simulation.cluster.controller import TOPIC_ID
from minikafka.lab.simulation.cluster.messages import Produce, Produced, Read, ReadAnswer
from minikafka.lab.simulation.cluster.node import SimulatedNode
from minikafka.lab.simulation.cluster.replica import NOW_MS
from minikafka.lab.simulation.kit.truth import Truth
from minikafka.lab.simulation.kit.world import World
from minikafka.metadata.records import NO_LEADER
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import encode_batch

REQUEST_TIMEOUT_S = 2.5
RETRY_S = 0.25
IN_FLIGHT_MAX = 3
SEQUENCE_ERRORS_MAX = 8
"""After so many an idempotent producer starts over: what it wrote was lost."""
READ_EVERY_S = 2.0
FOLLOWER_READS = 0.3


def _batch_of(values: list[str], producer: tuple[int, int, int] | None) -> bytes:
    """A batch with a record for each value; `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return bytes(
        encode_batch(
            [(b"key", value.encode(), (), NOW_MS) for value in values],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


class Network(Protocol):
    """What clients can reach; `Cluster` is one."""

    world: World
    truth: Truth
    nodes: Mapping[int, SimulatedNode]

    def send(self, sender: int, receiver: int, message: object) -> None: ...

    def new_producer_id(self) -> int: ...


class Client:
    """What producers and consumers share: an address, and where the leader might be."""

    def __init__(self, cluster: Network, address: int, number: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.address = address
        self.number = number
        self._correlations = 0

    def next_correlation(self) -> int:
        self._correlations += 1
        return self._correlations

    def find_leader(self) -> int:
        """Ask any node that is up who leads; `NO_LEADER` if it does not know."""
        nodes = [node for node in self.cluster.nodes.values() if node.is_up]
        if not nodes:
            return NO_LEADER
        partition = self.world.dice.choice(nodes).image.partition(TOPIC_ID, self.number)
        return NO_LEADER if partition is None else partition.leader

    def send(self, receiver: int, message: object) -> None:
        self.cluster.send(self.address, receiver, message)


class Batch:
    __slots__ = ("content", "correlation", "value")

    def __init__(self, value: str, content: bytes) -> None:
        self.value = value
        self.content = content
        self.correlation = -1


class Producer(Client):
    """Writes batches and repeats them until they are acknowledged (acks=0: sends them once).

    Attributes:
        acks: 0, 1 or -1.
        is_idempotent: With a producer id and sequences, several batches in flight.
        pending: What was not acknowledged yet, in order.
        acknowledged_count: What was.
    """

    def __init__(
        self,
        cluster: Network,
        address: int,
        number: int,
        *,
        acks: int,
        is_idempotent: bool,
        mean_pause_s: float,
    ) -> None:
        super().__init__(cluster, address, number)
        self.acks = acks
        self.is_idempotent = is_idempotent
        self.is_active = True
        self.pending: deque[Batch] = deque()
        self.acknowledged: list[tuple[int, str]] = []
        self._mean_pause_s = mean_pause_s
        self._count = 0
        self._in_flight = 0
        self._leader = NO_LEADER
        self._sequence = 0
        self._sequence_errors = 0
        self._producer_id = cluster.new_producer_id()
        self._retry_at: float | None = None
        self.world.after(self.world.dice.random(), self._write_next)

    def _write_next(self) -> None:
        if not self.is_active:
            return
        dice = self.world.dice
        self.world.after(dice.expovariate(1 / self._mean_pause_s), self._write_next)
        if len(self.pending) >= 20:
            return
        count = dice.choice((1, 1, 1, 2))
        if self.is_idempotent:
            value = f"i{self._producer_id}:{self._sequence}"
            producer = (self._producer_id, 0, self._sequence)
            self._sequence += count
        else:
            value = f"p{self.address}-{self._count}"
            producer = None
        self._count += 1
        content = _batch_of([value, *["and more"] * (count - 1)], producer)
        self.pending.append(Batch(value, content))
        if self.acks == 0:
            self._send_next()
            self.pending.clear()
            self._in_flight = 0
        elif self._retry_at is None:
            self._send_more()

    def _send_more(self) -> None:
        limit = IN_FLIGHT_MAX if self.is_idempotent else 1
        while self._in_flight < min(limit, len(self.pending)):
            if not self._send_next():
                return

    def _send_next(self) -> bool:
        if self._leader == NO_LEADER:
            self._leader = self.find_leader()
            if self._leader == NO_LEADER:
                self._retry_later()
                return False
        batch = self.pending[self._in_flight]
        batch.correlation = self.next_correlation()
        self._in_flight += 1
        request = Produce(self.number, batch.correlation, self.acks, batch.content, batch.value)
        self.send(self._leader, request)
        if self.acks:
            self.world.after(REQUEST_TIMEOUT_S, self._time_out, batch, batch.correlation)
        return True

    def _time_out(self, batch: Batch, correlation: int) -> None:
        if batch.correlation == correlation:
            self._retry_later()

    def _retry_later(self) -> None:
        """Send everything again in order, to the next leader."""
        for batch in self.pending:
            batch.correlation = -1
        self._in_flight = 0
        self._leader = NO_LEADER
        if self._retry_at is None and self.acks:
            self._retry_at = self.world.now + RETRY_S
            self.world.after(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retry_at = None
        self._send_more()

    def receive(self, _: int, message: object) -> None:
        assert isinstance(message, Produced)
        known = [batch for batch in self.pending if batch.correlation == message.correlation]
        if not known:
            return
        if message.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._sequence_errors += 1
            if self._sequence_errors > SEQUENCE_ERRORS_MAX:
                self._start_over()
        if message.error_code is not ErrorCode.NONE:
            self._retry_later()
            return
        self._sequence_errors = 0
        batch = known[0]
        self.acknowledged.append((message.base_offset, batch.value))
        self._in_flight -= 1
        self.pending.remove(batch)
        self._send_more()

    def _start_over(self) -> None:
        """What was acknowledged before is lost (as it may be): nothing can follow it."""
        self.world.note("producer {} starts over", self._producer_id)
        self._producer_id = self.cluster.new_producer_id()
        self._sequence = self._sequence_errors = 0
        self.pending.clear()

    def stop(self) -> None:
        self.is_active = False


class Consumer(Client):
    """Reads from the beginning on, sometimes from followers.

    Attributes:
        offset: What it reads next.
    """

    def __init__(self, cluster: Network, address: int, number: int) -> None:
        super().__init__(cluster, address, number)
        self.offset = 0
        self.world.after(self.world.dice.random() * READ_EVERY_S, self._read_regularly)

    def _read_regularly(self) -> None:
        self.world.after(READ_EVERY_S, self._read_regularly)
        self._read()

    def _read(self) -> None:
        dice = self.world.dice
        receiver = self.find_leader()
        if dice.random() < FOLLOWER_READS:
            receiver = dice.choice(sorted(self.cluster.nodes))
        if receiver != NO_LEADER:
            self.send(receiver, Read(self.number, self.next_correlation(), self.offset))

    def receive(self, _: int, message: object) -> None:
        assert isinstance(message, ReadAnswer)
        if message.correlation != self._correlations:
            return
        if message.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            end = self.cluster.truth.partitions[self.number].end_offset
            self.offset = min(self.offset, end)
        elif message.entries and message.entries[0].base_offset <= self.offset:
            self.offset = message.entries[-1].last_offset + 1
            self._read()  # there may be more
