"""The lab's producer: Kafka's rules of retrying and ordering, one record in each batch.

- acks=0 waits for nothing; a record is trusted when it is handed to the network.
- An error that may pass, a broken connection or a request without an answer puts the batch back in
  front of those that were not sent yet, for after a pause (retry.backoff.ms). What is in flight
  behind it goes on: without idempotence this is how records change places.
- With idempotence a batch is sent again only when none after it is in flight, and batches keep
  their sequence numbers. If the log does not know the batch before the first one that is not
  acknowledged, that one was lost: its batch fails, and the others go on with the next producer
  epoch and sequence 0 (KIP-360).
- Without retries the first error is the last: the program is told what Kafka's client tells it.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from minikafka.lab.ledger import Fate
from minikafka.lab.matrix import Acks, ProducerMode
from minikafka.lab.simulation.cluster.controller import TOPIC_ID
from minikafka.lab.simulation.cluster.messages import Produce, Produced
from minikafka.lab.simulation.cluster.replica import NOW_MS
from minikafka.lab.simulation.stage import PARTITION, Connection, Stage
from minikafka.metadata.records import NO_LEADER
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import encode_batch

REQUEST_TIMEOUT_S = 1.5
RETRY_BACKOFF_S = 0.1
TOO_FEW = frozenset(
    {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND},
)
_NOT_STORED = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Errors that say that a batch is not in the log. NOT_LEADER_OR_FOLLOWER does not: it also answers
a batch that was appended and that its leader could not commit."""


class Teller(Protocol):
    """Writes down what the program learns, and when."""

    def told(self, producer: LabProducer, value: str, fate: Fate, error: ErrorCode | None) -> None:
        """The last word about a record. `error` is None without any answer."""
        ...

    def retries(self, producer: LabProducer, value: str, error: ErrorCode | None, why: str) -> None:
        """A record will be sent again. `error` is None without any answer."""
        ...


class _Batch:
    __slots__ = (
        "connection",
        "content",
        "correlation",
        "error",
        "sent_at",
        "sequence",
        "value",
        "was_sent",
    )

    def __init__(self, value: str, content: bytes, sequence: int) -> None:
        self.value = value
        self.content = content
        self.sequence = sequence
        self.sent_at = 0.0
        self.correlation = -1
        self.was_sent = False
        self.connection: Connection | None = None


class LabProducer:
    """See the module's text.

    Attributes:
        name: of its lane.
        lane: its number among the clients.
        is_up: it was not killed.
        clock_error_ms: how much its time of day is wrong.
        ack_times_s: how long each acknowledgement took.
    """

    def __init__(
        self, stage: Stage, name: str, lane: int, producer_id: int, mode: ProducerMode, to: Teller
    ) -> None:
        self.name = name
        self.lane = lane
        self.is_up = True
        self.clock_error_ms = 0
        self.ack_times_s: list[float] = []
        self._stage = stage
        self._world = stage.world
        self._mode = mode
        self._teller = to
        self._producer_id = producer_id
        self._epoch = 0
        self._sequence = 0
        self._acked_sequence = -1
        self._queue: deque[_Batch] = deque()
        self._in_flight: dict[int, _Batch] = {}
        self._correlations = 0
        self._connections: dict[int, Connection] = {}
        self._leader = NO_LEADER
        self._not_before = 0.0
        self._is_woken = False
        self._is_starting_over = False

    @property
    def pending_count(self) -> int:
        """Records whose fate is open."""
        return len(self._queue) + len(self._in_flight)

    def produce(self, value: str) -> None:
        """The program sends a record."""
        self._queue.append(self._batch(value))
        self._send_more()

    def kill(self) -> None:
        """It dies; what was sent still arrives. The fates of its records stay unknown."""
        self.is_up = False
        for connection in self._connections.values():
            connection.close()
        self._queue.clear()
        self._in_flight.clear()

    def _batch(self, value: str) -> _Batch:
        sequence = -1
        if self._mode.is_idempotent:
            sequence = self._sequence
            self._sequence += 1
        return _Batch(value, self._encode(value, sequence), sequence)

    def _encode(self, value: str, sequence: int) -> bytes:
        now_ms = NOW_MS + self.clock_error_ms + int(self._world.now * 1000)
        producer_id, epoch = (self._producer_id, self._epoch) if sequence >= 0 else (-1, -1)
        return bytes(
            encode_batch(
                [(b"k", value.encode(), (), now_ms)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    # --- sending ----------------------------------------------------------------------------------

    def _send_more(self) -> None:
        queue, in_flight, limit = self._queue, self._in_flight, self._mode.in_flight_max
        if self._is_starting_over and not self._start_over():
            return
        while queue and len(in_flight) < limit and self.is_up:
            head = queue[0]
            if head.was_sent and self._world.now < self._not_before:
                self._wake_at(self._not_before)
                return
            if head.was_sent and head.sequence >= 0 and self._is_behind(head):
                return
            connection = self._connect()
            if connection is None:
                self._wake_at(self._world.now + RETRY_BACKOFF_S)
                return
            queue.popleft()
            self._send(head, connection)

    def _is_behind(self, batch: _Batch) -> bool:
        """A later batch is in flight: it has to fail or succeed first."""
        return any(one.sequence > batch.sequence for one in self._in_flight.values())

    def _send(self, batch: _Batch, connection: Connection) -> None:
        self._correlations += 1
        batch.correlation = self._correlations
        if not batch.was_sent:
            batch.sent_at = self._world.now
        batch.was_sent = True
        batch.connection = connection
        acks = self._mode.acks
        if acks is not Acks.NONE:
            self._in_flight[batch.correlation] = batch
            self._world.after(REQUEST_TIMEOUT_S, self._time_out, batch.correlation)
        else:
            self._teller.told(self, batch.value, Fate.TRUSTED, None)
        connection.send(
            Produce(PARTITION, batch.correlation, acks.value, batch.content, batch.value)
        )

    def _connect(self) -> Connection | None:
        """The connection to the leader; any node is asked who that is."""
        if self._leader == NO_LEADER:
            nodes = [one for one in self._stage.nodes.values() if one.is_up and not one.is_paused]
            if not nodes:
                return None
            partition = self._world.dice.choice(nodes).image.partition(TOPIC_ID, PARTITION)
            if partition is None or partition.leader == NO_LEADER:
                return None
            self._leader = partition.leader
        connection = self._connections.get(self._leader)
        if connection is None:
            connection = self._stage.connect(self, self.lane, self._leader)
            if self._stage.recorder is not None:
                self._stage.recorder.client_at(connection.address, self.name)
            self._connections[self._leader] = connection
        return connection

    def _wake_at(self, time: float) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._world.at(time, self._wake)

    def _wake(self) -> None:
        self._is_woken = False
        self._send_more()

    # --- answers ----------------------------------------------------------------------------------

    def answered(self, connection: Connection, message: object) -> None:
        """An answer to a request (`ConnectionUser`)."""
        assert isinstance(message, Produced)
        batch = self._in_flight.pop(message.correlation, None)
        if batch is None:
            return
        error = message.error_code
        if error is ErrorCode.NONE:
            self._acked_sequence = max(self._acked_sequence, batch.sequence)
            self.ack_times_s.append(self._world.now - batch.sent_at)
            self._teller.told(self, batch.value, Fate.TRUSTED, error)
        elif (
            error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            and batch.sequence <= self._acked_sequence + 1
        ):
            # What was acknowledged before it is gone, so it cannot be stored.
            self._teller.told(self, batch.value, Fate.REFUSED, error)
            self._is_starting_over = True
        else:
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._leader = NO_LEADER  # what is in flight stays so
            self._failed([batch], error, error.name)
        self._send_more()

    def closed(self, connection: Connection) -> None:
        """A connection is broken (`ConnectionUser`)."""
        self._fail_all(connection, "the connection broke")

    def _time_out(self, correlation: int) -> None:
        batch = self._in_flight.get(correlation)
        if batch is not None and batch.connection is not None:
            batch.connection.close()
            self._fail_all(batch.connection, "there was no answer in time")

    def _fail_all(self, connection: Connection, why: str) -> None:
        """No answer comes to what is in flight on a connection."""
        self._connections.pop(connection.node_id, None)
        self._leader = NO_LEADER
        batches = [one for one in self._in_flight.values() if one.connection is connection]
        self._failed(batches, None, why)
        self._send_more()

    def _failed(self, batches: list[_Batch], error: ErrorCode | None, why: str) -> None:
        """Send batches again after a pause, or give them up."""
        for batch in batches:
            self._in_flight.pop(batch.correlation, None)
            if not self._mode.retries:
                fate = Fate.REFUSED if error in _NOT_STORED else Fate.UNKNOWN
                self._teller.told(self, batch.value, fate, error)
        if self._mode.retries and batches:
            self._not_before = self._world.now + RETRY_BACKOFF_S
            for batch in batches:
                self._teller.retries(self, batch.value, error, why)
            self._put_back(batches)

    def _put_back(self, batches: list[_Batch]) -> None:
        queue = self._queue
        if self._mode.is_idempotent:
            ordered = sorted([*batches, *queue], key=lambda one: one.sequence)
            queue.clear()
            queue.extend(ordered)
        else:
            queue.extendleft(reversed(batches))

    def _start_over(self) -> bool:
        """Go on with the next epoch when nothing of this one is in flight; whether it could."""
        if self._in_flight:
            return False
        self._is_starting_over = False
        self._epoch += 1
        self._sequence, self._acked_sequence = 0, -1
        waiting = [*self._queue]
        self._queue.clear()
        for one in waiting:
            again = self._batch(one.value)
            again.sent_at, again.was_sent = one.sent_at, one.was_sent
            self._queue.append(again)
        return True
