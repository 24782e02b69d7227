"""Members of consumer groups, of two clients, each at work in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol

from tests.interop.clients import (
    CONFLUENT,
    KAFKA_PYTHON,
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    confluent_kafka,
    kafka,
)
from tests.interop.waiting import SECONDS_MAX, Progress

RANGE, COOPERATIVE = "range", "cooperative-sticky"
SESSION_MS = 45_000
"""So long that no living member is given up on a busy machine."""

Partitions = set[tuple[str, int]]
Position = tuple[str, int, int]
"""(topic, partition, offset)."""

WAKE = b"a record that nobody counts"
Rebalanced = Callable[[Partitions], None]
PROGRESS = Progress()
"""Announced whenever a member has polled."""


class Consumer(Protocol):
    """One client's consumer, used from one thread only.

    Attributes:
        is_hasty: whether `poll` returns soon though there is nothing.
    """

    is_hasty: bool

    def poll(self) -> list[tuple[Position, bytes | None]]:
        """Heartbeats, joins, callbacks, records; waits briefly for them."""
        ...

    def assigned(self) -> Partitions:
        """What it may read, as far as it knows; may be asked from any thread."""
        ...

    def commit(self) -> None:
        """Commit what it has read, and wait for the answer."""
        ...

    def close(self) -> None:
        """Commit, and leave the group (a static member stays in it)."""
        ...


class ConfluentConsumer:
    """confluent-kafka's consumer."""

    is_hasty = True

    def __init__(
        self,
        rebalanced: Rebalanced,
        bootstrap: str,
        group: str,
        topics: list[str],
        assignor: str,
        **settings: object,
    ) -> None:
        self._assigned: Partitions = set()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": assignor,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 200,
                "topic.metadata.refresh.interval.ms": 500,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

        def changed(_: Any, partitions: list[Any]) -> None:
            rebalanced({(one.topic, one.partition) for one in partitions})

        self._consumer.subscribe(topics, on_assign=changed, on_revoke=changed, on_lost=changed)

    def poll(self) -> list[tuple[Position, bytes | None]]:
        found: list[tuple[Position, bytes | None]] = []
        for message in self._consumer.consume(1000, 0.1):
            error = message.error()
            if (
                error is not None
                and error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            ):
                continue  # deleted under it, which is for the next rebalance
            if error is not None:
                raise confluent_kafka.KafkaException(error)
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            found.append(((topic, partition, offset), message.value()))
        self._assigned = {(one.topic, one.partition) for one in self._consumer.assignment()}
        return found

    def assigned(self) -> Partitions:
        return self._assigned

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonConsumer:
    """kafka-python's consumer.

    Two things of version 3.0 decide how long a `poll` should be: a rebalance that is not over when
    it times out is never over (the answer to SyncGroup is forgotten), so it should wait until
    there are records; but a fetch that failed because the broker was away is not repeated before
    the next `poll`. `is_hasty` tells which of them matters now.
    """

    def __init__(
        self,
        rebalanced: Rebalanced,
        bootstrap: str,
        group: str,
        topics: list[str],
        assignor: str,
        **settings: object,
    ) -> None:
        assignors = {RANGE: RangePartitionAssignor, COOPERATIVE: CooperativeStickyAssignor}
        self._assigned: Partitions = set()
        self._rebalanced = rebalanced
        self._consumer = kafka.KafkaConsumer(
            **{
                "bootstrap_servers": bootstrap,
                "group_id": group,
                "auto_offset_reset": "earliest",
                "partition_assignment_strategy": [assignors[assignor]],
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": 200,
                "metadata_max_age_ms": 500,
                **settings,
            }
        )
        self._consumer.subscribe(topics, listener=_Listener(self))

    is_hasty = False

    def on_assigned(self, partitions: Partitions) -> None:
        self._assigned = self._assigned | partitions
        self._rebalanced(partitions)

    def on_revoked(self, partitions: Partitions) -> None:
        self._assigned = self._assigned - partitions
        self._rebalanced(partitions)

    def poll(self) -> list[tuple[Position, bytes | None]]:
        timeout_ms = 500 if self.is_hasty else SECONDS_MAX * 1000
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms)
        except kafka.errors.KafkaConnectionError:
            return []  # the broker is away; the next poll tries again
        return [
            ((one.topic, one.partition, record.offset), record.value)
            for one, records in polled.items()
            for record in records
        ]

    def assigned(self) -> Partitions:
        return self._assigned

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, consumer: KafkaPythonConsumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._consumer.on_assigned({(one.topic, one.partition) for one in assigned})

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._consumer.on_revoked({(one.topic, one.partition) for one in revoked})


class Member:
    """A consumer at work in a thread of its own.

    Attributes:
        rebalances: how often it was told of partitions, assignments and revocations counted.
        failure: what ended its work, if something did; most methods raise it.
    """

    def __init__(
        self,
        client: str,
        bootstrap: str,
        group: str,
        topics: list[str],
        assignor: str = RANGE,
        **settings: object,
    ) -> None:
        self._received: list[tuple[Position, bytes | None]] = []
        self.rebalances = 0
        self._bootstrap = bootstrap
        self._orders: deque[tuple[Future[None], Callable[[], None]]] = deque()
        self.failure: BaseException | None = None
        self._is_closing = False
        self._is_closed = False
        self._consumer = CONSUMERS[client](
            self._on_rebalance, bootstrap, group, topics, assignor, **settings
        )
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _on_rebalance(self, partitions: Partitions) -> None:
        self.rebalances += bool(partitions)
        PROGRESS.announce()

    def _work(self) -> None:
        try:
            while not self._is_closed:
                self._obey()
                if not self._is_closed:
                    found = self._consumer.poll()
                    self._received += [one for one in found if one[1] != WAKE]
                PROGRESS.announce()
        except BaseException as error:  # noqa: BLE001  # the test's thread will want to know
            self.failure = error
            PROGRESS.announce()

    def _obey(self) -> None:
        while self._orders:
            future, order = self._orders.popleft()
            order()
            future.set_result(None)

    @property
    def received(self) -> list[tuple[Position, bytes | None]]:
        """(topic, partition, offset) and value of what it read, in that order."""
        if self.failure is not None:
            raise self.failure
        return self._received

    def assigned(self) -> Partitions:
        """What it may read now."""
        if self.failure is not None:
            raise self.failure
        return self._consumer.assigned()

    def commit(self) -> None:
        """Commit what it has read, and wait for the answer."""
        self._order(self._consumer.commit).result(SECONDS_MAX)

    def close(self) -> None:
        """Commit, and leave the group (a static member stays in it)."""
        self.begin_to_close()
        self._thread.join()

    def expect_the_broker_to_leave(self) -> None:
        """Prepare for a restart of the broker rather than for rebalances."""

        def hurry() -> None:
            self._consumer.is_hasty = True

        self._order(hurry).result(SECONDS_MAX)

    def begin_to_close(self) -> None:
        """Close without waiting for it."""

        def close() -> None:
            self._is_closed = True
            self._consumer.close()

        if not self._is_closing:
            self._is_closing = True
            self._order(close)

    def _order(self, order: Callable[[], None]) -> Future[None]:
        """Have its thread do something; a record wakes it up if it waits for one."""
        future: Future[None] = Future()
        self._orders.append((future, order))
        if self.failure is not None:
            self._obey()
            return future
        waker = confluent_kafka.Producer({"bootstrap.servers": self._bootstrap})
        for topic, partition in self._consumer.assigned():
            waker.produce(topic, WAKE, partition=partition)
        waker.flush(SECONDS_MAX)
        return future


CONSUMERS: dict[str, Callable[..., Consumer]] = {
    CONFLUENT: ConfluentConsumer,
    KAFKA_PYTHON: KafkaPythonConsumer,
}


@contextmanager
def group_of(*members: Member) -> Generator[list[Member]]:
    """A list of members that are closed in the end, those that are put into it meanwhile too."""
    everyone = list(members)
    try:
        yield everyone
    finally:
        for member in everyone:
            member.begin_to_close()
        for member in everyone:
            member.close()


def wait_until_assigned(
    members: list[Member], wanted: Callable[[list[Partitions]], bool], what: str
) -> list[Partitions]:
    """Wait until members' assignments are as wanted; returns these."""

    def assigned() -> list[Partitions]:
        return [member.assigned() for member in members]

    PROGRESS.wait_until(lambda: wanted(assigned()), what=what, show=assigned)
    return assigned()


def shares(*sizes: int) -> Callable[[list[Partitions]], bool]:
    """Assignments that share out partitions in these sizes (in any order), none twice."""

    def is_so(found: list[Partitions]) -> bool:
        union: Partitions = set().union(*found)
        return sorted(map(len, found)) == sorted(sizes) and len(union) == sum(sizes)

    return is_so
