"""Members of consumer groups, of two clients, each at work in a thread of its own."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.interop import clients as client_libraries
from tests.kit.waiting import SECONDS_MAX, Progress

RANGE, COOPERATIVE = "range", "cooperative-sticky"
CONSUMER = "consumer"
"""In place of an assignor: the consumer protocol (KIP-848), in which the broker assigns."""
SESSION_MS = 45_000
"""So long that no living member is given up on a busy machine."""

Partitions = set[tuple[str, int]]
Position = tuple[str, int, int]
"""(topic, partition, offset)."""

WAKE = b"a record that is not counted"
Rebalanced = Callable[[Partitions], None]
PROGRESS = Progress()
"""Announced whenever a member has polled."""


class Membership(NamedTuple):
    """The group that a consumer joins, and how."""

    bootstrap: str
    group: str
    topics: list[str]
    assignor: str


class Consumer:
    """One client's consumer, used from one thread only.

    Attributes:
        is_hasty: whether `poll` returns soon even if there are no records.
    """

    is_hasty = True

    def __init__(self, rebalanced: Rebalanced, consumer: Any) -> None:
        self._assigned: Partitions = set()
        self._rebalanced = rebalanced
        self._consumer = consumer

    def on_assigned(self, partitions: Iterable[Any]) -> None:
        found = {(one.topic, one.partition) for one in partitions}
        self._assigned = self._assigned | found
        self._rebalanced(found)

    def on_revoked(self, partitions: Iterable[Any]) -> None:
        found = {(one.topic, one.partition) for one in partitions}
        self._assigned = self._assigned - found
        self._rebalanced(found)

    def poll(self) -> list[tuple[Position, bytes | None]]:
        """Heartbeats, joins, callbacks, records; waits briefly for them."""
        raise NotImplementedError

    def assigned(self) -> Partitions:
        """What it may read, as far as it knows; may be asked from any thread."""
        return self._assigned

    def commit(self) -> None:
        """Commit what it has read, and wait for the answer."""
        self._consumer.commit()

    def close(self) -> None:
        """Commit, and leave the group (a static member stays in it)."""
        self._consumer.close()


class ConfluentConsumer(Consumer):
    def __init__(self, rebalanced: Rebalanced, where: Membership, **settings: object) -> None:
        protocol: dict[str, Any] = {
            "partition.assignment.strategy": where.assignor,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
        }
        if where.assignor == CONSUMER:
            protocol = {"group.protocol": "consumer"}
        consumer = client_libraries.confluent_kafka.Consumer(
            {
                "bootstrap.servers": where.bootstrap,
                "group.id": where.group,
                "auto.offset.reset": "earliest",
                **protocol,
                "topic.metadata.refresh.interval.ms": 500,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

        def changed(_: Any, partitions: list[Any]) -> None:
            rebalanced({(one.topic, one.partition) for one in partitions})

        super().__init__(rebalanced, consumer)
        consumer.subscribe(where.topics, on_assign=changed, on_revoke=changed, on_lost=changed)

    def poll(self) -> list[tuple[Position, bytes | None]]:
        found: list[tuple[Position, bytes | None]] = []
        for message in self._consumer.consume(1000, 0.1):
            error = message.error()
            if error is not None:
                if (
                    error.code()
                    != client_libraries.confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
                ):
                    raise client_libraries.confluent_kafka.KafkaException(error)
                continue  # deleted under it, which is for the next rebalance
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            found.append(((topic, partition, offset), message.value()))
        self._assigned = {(one.topic, one.partition) for one in self._consumer.assignment()}
        return found

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)


class KafkaPythonConsumer(Consumer):
    """kafka-python's consumer.

    Two things of version 3.0 decide how long a `poll` should be: a rebalance that is not over when
    it times out is never over (the answer to SyncGroup is forgotten), so it should wait until
    there are records; but a fetch that failed because the broker was away is not repeated before
    the next `poll`. `is_hasty` selects which of them matters now.
    """

    is_hasty = False

    def __init__(self, rebalanced: Rebalanced, where: Membership, **settings: object) -> None:
        assignors = {
            RANGE: client_libraries.RangePartitionAssignor,
            COOPERATIVE: client_libraries.CooperativeStickyAssignor,
        }
        consumer = client_libraries.kafka.KafkaConsumer(
            **{
                "bootstrap_servers": where.bootstrap,
                "group_id": where.group,
                "auto_offset_reset": "earliest",
                "partition_assignment_strategy": [assignors[where.assignor]],
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": 200,
                "metadata_max_age_ms": 500,
                **settings,
            }
        )
        super().__init__(rebalanced, consumer)
        consumer.subscribe(where.topics, listener=_Listener(self))

    def poll(self) -> list[tuple[Position, bytes | None]]:
        timeout_ms = 500 if self.is_hasty else SECONDS_MAX * 1000
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms)
        except client_libraries.kafka.errors.KafkaConnectionError:
            return []  # the broker is away; the next poll tries again
        return [
            ((one.topic, one.partition, record.offset), record.value)
            for one, records in polled.items()
            for record in records
        ]


class _Listener(client_libraries.kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, consumer: KafkaPythonConsumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._consumer.on_assigned(assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._consumer.on_revoked(revoked)


class Member:
    """A consumer at work in a thread of its own.

    Attributes:
        rebalances: how often partitions were assigned or revoked.
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
        where = Membership(bootstrap, group, topics, assignor)
        self._consumer = CONSUMERS[client](self._on_rebalance, where, **settings)
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
        waker = client_libraries.confluent_kafka.Producer({"bootstrap.servers": self._bootstrap})
        for topic, partition in self._consumer.assigned():
            waker.produce(topic, WAKE, partition=partition)
        waker.flush(SECONDS_MAX)
        return future


CONSUMERS: dict[str, Callable[..., Consumer]] = {
    client_libraries.CONFLUENT: ConfluentConsumer,
    client_libraries.KAFKA_PYTHON: KafkaPythonConsumer,
}


@contextmanager
def group_of(*members: Member) -> Generator[list[Member]]:
    """A list of members that are closed in the end, including those added in the meantime."""
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


def values(members: Iterable[Member]) -> list[bytes | None]:
    return [value for member in members for _, value in member.received]


def read_all(everyone: list[Member], members: list[Member], wanted: set[bytes]) -> None:
    """Wait until the group has read everything, and commit it."""
    PROGRESS.wait_until(
        lambda: wanted <= set(values(everyone)),
        what=f"{len(wanted)} records",
        show=lambda: [(len(each.received), each.failure) for each in everyone],
    )
    for member in members:
        member.commit()


def check_that_each_record_is_read_once(
    clients: Sequence[str],
    bootstrap: str,
    topic: str,
    assignor: str,
    send: Callable[[str], set[bytes]],
) -> None:
    """Let members join a group one by one and the first one leave, while records arrive.

    Args:
        clients: the kind of each member; there are three.
        bootstrap: the broker.
        topic: has six partitions; the group has its name.
        assignor: of all members.
        send: produces values with a prefix to all partitions, and returns them.
    """
    wanted: set[bytes] = set()
    everyone: list[Member] = []
    with group_of() as members:
        for client, sizes in zip(clients, [(6,), (3, 3), (2, 2, 2)], strict=True):
            wanted |= send(f"before {sizes}")
            members.append(Member(client, bootstrap, topic, [topic], assignor))
            everyone.append(members[-1])
            wait_until_assigned(members, shares(*sizes), f"shares of {sizes}")
            wanted |= send(f"with {sizes}")
            read_all(everyone, members, wanted)
        members.pop(0).close()
        wait_until_assigned(members, shares(3, 3), "shares of three")
        wanted |= send("after one left")
        read_all(everyone, members, wanted)
    assert Counter(values(everyone)) == Counter(wanted)
    for member in everyone:
        for partition in {place[1] for place, _ in member.received}:
            offsets = [place[2] for place, _ in member.received if place[1] == partition]
            assert offsets == sorted(offsets)
