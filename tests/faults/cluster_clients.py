"""Our own client and confluent-kafka, writing and reading while brokers come and go."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

import confluent_kafka
import trio

from minikafka.testing.history.operations import Key, Value
from minikafka.testing.history.recording import Recorded
from minikafka_client import Consumer, KafkaError, Producer, TopicPartition
from minikafka_client.trio_api.delivery import Delivery
from tests.faults.cluster_load import Client, Reader, Writer, by_partition

IsolationLevel = Literal["read_committed", "read_uncommitted"]

_IN_FLIGHT_MAX = 5
_POLL_S = 0.1
_FLUSH_SECONDS_MAX = 120.0

# A broker that hangs or is cut off never answers; half a minute is too long to find out.
_OUR_PATIENCE_MS = 3000
_CONFLUENT_PATIENCE = {
    "socket.timeout.ms": 3000,
    "socket.connection.setup.timeout.ms": 3000,
    # A leader that is cut off from the other brokers still claims to lead. librdkafka asks
    # another broker only when its metadata are old.
    "topic.metadata.refresh.interval.ms": 2000,
    "log_level": 0,
}


class OurWriter(Writer):
    """`minikafka_client.Producer`, a few records in flight for each partition."""

    def work(self) -> None:
        trio.run(self._work)

    async def _work(self) -> None:
        acks: Literal["all", 1] = "all" if self.acks == "all" else 1
        async with (
            Producer(
                self.load.bootstrap,
                acks=acks,
                enable_idempotence=self.is_idempotent,
                linger_ms=1,
                client_id=self.name,
                request_timeout_ms=_OUR_PATIENCE_MS,
                socket_connection_setup_timeout_ms=_OUR_PATIENCE_MS,
            ) as producer,
            trio.open_nursery() as nursery,
        ):
            for partition in await producer.partitions_for(self.topic):
                nursery.start_soon(self._write, producer, partition)

    async def _write(self, producer: Producer, partition: int) -> None:
        sent: deque[tuple[Recorded, Delivery]] = deque()
        while not self.load.over.is_set():
            value = self.next_value()
            recorded = self.load.recorder.send(self.name, (self.topic, partition), value)
            # Without a wait in between, so that the history has the order of the producer.
            sent.append((recorded, producer.send_nowait(self.topic, value, partition=partition)))
            if len(sent) >= _IN_FLIGHT_MAX:
                await self._settle(partition, *sent.popleft())
        while sent:
            await self._settle(partition, *sent.popleft())

    async def _settle(self, partition: int, recorded: Recorded, delivery: Delivery) -> None:
        try:
            found = await delivery
        except KafkaError as error:
            self.failed.append(str(error))
            recorded.info()
            return
        if self.acks == "all":
            recorded.ok(found.offset)
        self.acknowledged(partition)


class ConfluentWriter(Writer):
    def work(self) -> None:
        """Produce until it is over, then wait for every delivery report."""
        producer: Any = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.load.bootstrap,
                "acks": self.acks,
                "enable.idempotence": self.is_idempotent,
                "linger.ms": 1,
                "client.id": self.name,
                "request.timeout.ms": 3000,
                **_CONFLUENT_PATIENCE,
            }
        )
        flying = dict.fromkeys(range(self.load.topics[self.topic]), 0)
        while not self.load.over.is_set():
            for partition in flying:
                if flying[partition] < _IN_FLIGHT_MAX:
                    flying[partition] += 1
                    self._send(producer, partition, flying)
            producer.poll(_POLL_S if min(flying.values()) >= _IN_FLIGHT_MAX else 0)
        assert producer.flush(_FLUSH_SECONDS_MAX) == 0, f"{self.name} cannot flush"

    def _send(self, producer: Any, partition: int, flying: dict[int, int]) -> None:
        value = self.next_value()
        recorded = self.load.recorder.send(self.name, (self.topic, partition), value)

        def on_delivery(error: object, message: Any) -> None:
            flying[partition] -= 1
            if error is not None:
                self.failed.append(str(error))
                recorded.info()
                return
            if self.acks == "all":
                recorded.ok(message.offset())
            self.acknowledged(partition)

        producer.produce(self.topic, value, partition=partition, on_delivery=on_delivery)


class OurReader(Reader):
    """`minikafka_client.Consumer` with every partition assigned; a reset would be an error."""

    isolation_level: IsolationLevel = "read_uncommitted"

    def work(self) -> None:
        trio.run(self._work)

    async def _work(self) -> None:
        async with Consumer(
            self.load.bootstrap,
            auto_offset_reset="none",
            isolation_level=self.isolation_level,
            client_id=self.name,
            request_timeout_ms=_OUR_PATIENCE_MS,
            socket_connection_setup_timeout_ms=_OUR_PATIENCE_MS,
        ) as consumer:
            await consumer.assign([TopicPartition(*key) for key in self.load.partitions])
            await consumer.seek_to_beginning()
            while not self.load.over.is_set():
                records = await consumer.poll(timeout_ms=_POLL_S * 1000)
                if records:
                    self.saw(by_partition(records))


class ConfluentReader(Reader):
    """librdkafka's consumer, the same."""

    isolation_level: IsolationLevel = "read_committed"

    def work(self) -> None:
        consumer: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.load.bootstrap,
                "group.id": "not used",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": self.isolation_level,
                "client.id": self.name,
                **_CONFLUENT_PATIENCE,
            }
        )
        try:
            consumer.assign(
                [
                    confluent_kafka.TopicPartition(*key, confluent_kafka.OFFSET_BEGINNING)
                    for key in self.load.partitions
                ]
            )
            while not self.load.over.is_set():
                found: dict[Key, list[tuple[int, Value]]] = {}
                for message in consumer.consume(500, _POLL_S):
                    if message.error() is not None:
                        _raise_unless_passing(message.error())
                        continue
                    key = (message.topic(), message.partition())
                    found.setdefault(key, []).append((message.offset(), message.value()))
                if found:
                    self.saw(found)
        finally:
            consumer.close()


class Committer(Client):
    """Commits rising offsets for a group; what it finds is never below what was acknowledged.

    Args:
        load: what it belongs to.
        name: its own and the group's.
        key: the partition whose offsets it commits.
    """

    def __init__(self, load: Any, name: str, key: Key) -> None:
        super().__init__(load, name)
        self._key = key
        self.acked = -1
        self._sent = -1

    def work(self) -> None:
        consumer: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.load.bootstrap,
                "group.id": self.name,
                "enable.auto.commit": False,
                "client.id": self.name,
                **_CONFLUENT_PATIENCE,
            }
        )
        try:
            while not self.load.over.is_set():
                self._commit(consumer)
                self._check(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: Any) -> None:
        self._sent += 1
        offset = confluent_kafka.TopicPartition(*self._key, self._sent)
        try:
            (answer,) = consumer.commit(offsets=[offset], asynchronous=False)
        except confluent_kafka.KafkaException as error:
            _raise_unless_passing(error.args[0])
            return
        if answer.error is None:
            self.acked = self._sent
            self.load.progress.announce()

    def _check(self, consumer: Any) -> None:
        try:
            (found,) = consumer.committed([confluent_kafka.TopicPartition(*self._key)], 5.0)
        except confluent_kafka.KafkaException as error:
            _raise_unless_passing(error.args[0])
            return
        if found.error is None:
            at_least = self.acked if self.acked >= 0 else confluent_kafka.OFFSET_INVALID
            assert at_least <= found.offset <= max(self._sent, confluent_kafka.OFFSET_INVALID), (
                f"{self.name}: committed {found.offset}, acknowledged {self.acked}, "
                f"sent {self._sent}"
            )


def _raise_unless_passing(error: Any) -> None:
    """A client may report that it cannot reach a broker; any other error is a broken promise."""
    kinds = confluent_kafka.KafkaError
    passing = {
        kinds._TRANSPORT,
        kinds._ALL_BROKERS_DOWN,
        kinds._TIMED_OUT,
        kinds._TIMED_OUT_QUEUE,
        kinds._WAIT_COORD,
        kinds._RESOLVE,
        kinds.REQUEST_TIMED_OUT,
        kinds.COORDINATOR_NOT_AVAILABLE,
        kinds.COORDINATOR_LOAD_IN_PROGRESS,
        kinds.NOT_COORDINATOR,
        kinds.NOT_LEADER_FOR_PARTITION,
        kinds.LEADER_NOT_AVAILABLE,
        kinds.NETWORK_EXCEPTION,
        kinds.NOT_ENOUGH_REPLICAS,
        kinds.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
    assert error.code() in passing, f"{error.name()}: {error.str()}"
