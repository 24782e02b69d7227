"""The matrix: how a producer sends, where it is stored, how a consumer commits, what goes wrong.

A cell is one choice of each. Its name is short, stable and safe in a shell and in a link, such as
``p.acks1-retries_t.r3-m1_c.none_f.leader-killed-after-ack``; `Cell.parse` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, Self


class Acks(Enum):
    """Whom a producer waits for (Kafka's ``acks``)."""

    NONE = 0
    LEADER = 1
    ALL = -1

    @property
    def word(self) -> str:
        """As in names: ``acks0``, ``acks1``, ``acksall``."""
        return "acksall" if self is Acks.ALL else f"acks{self.value}"


class ProducerMode(NamedTuple):
    """How a producer sends.

    Attributes:
        acks: whom it waits for.
        retries: it sends again what was not acknowledged (``retries``).
        is_idempotent: its batches have sequence numbers (``enable.idempotence``).
        is_transactional: it sends in transactions (``transactional.id``).
        in_flight_max: how many requests may be under way
            (``max.in.flight.requests.per.connection``).
    """

    acks: Acks = Acks.ALL
    retries: bool = True
    is_idempotent: bool = False
    is_transactional: bool = False
    in_flight_max: int = 1

    def __str__(self) -> str:
        words = [self.acks.word]
        if self.is_transactional:
            words.append("tx")
        elif self.is_idempotent:
            words.append("idem")
        elif self.retries:
            words.append("retries")
        if self.in_flight_max > 1:
            words.append(f"fly{self.in_flight_max}")
        return "-".join(words)


class TopicMode(NamedTuple):
    """Where records are stored.

    Attributes:
        replicas: of the partition (``replication.factor``).
        min_insync: ``min.insync.replicas``.
        is_synced: every replica syncs before it counts (``flush.messages=1``); else the page cache.
    """

    replicas: int = 3
    min_insync: int = 2
    is_synced: bool = False

    def __str__(self) -> str:
        return f"r{self.replicas}-m{self.min_insync}{'-fsync' if self.is_synced else ''}"


class Commit(Enum):
    """When a consumer commits its position."""

    AUTO = "auto"
    """By a timer, whatever has been processed meanwhile (``enable.auto.commit``)."""
    AUTO_ON_POLL = "auto-on-poll"
    """By a timer that polls look at, so that only what was returned before is committed."""
    BEFORE = "before"
    """Before it processes."""
    AFTER_SYNC = "after-sync"
    """After it has processed; it waits for the answer."""
    AFTER_ASYNC = "after-async"
    """After it has processed; it goes on without the answer."""
    WITH_RESULT = "with-result"
    """The position is stored in one transaction of a database with the result."""
    UPSERT = "upsert"
    """After it has processed; a result replaces the one of the same record."""
    TRANSACTION = "transaction"
    """Consume, transform, produce: results and position in one transaction of Kafka."""
    TWO_PHASE = "two-phase"
    """A transaction of Kafka and one of a database, ended together by two-phase commit."""
    SPARK_SINK = "spark-sink"
    """A Spark query writes micro-batches with the sink that writes exactly once."""


class ConsumerMode(NamedTuple):
    """How records are consumed, and what counts as processed.

    Attributes:
        commit: when the position is committed.
        is_read_committed: ``isolation.level=read_committed``.
    """

    commit: Commit
    is_read_committed: bool = False

    def __str__(self) -> str:
        return f"{self.commit.value}{'-rc' if self.is_read_committed else ''}"


class Fault(Enum):
    """What goes wrong in a cell. Each word stands for one or several such events in a run."""

    NONE = "none"
    REQUEST_LOST = "request-lost"
    ACK_LOST = "ack-lost"
    LEADER_KILLED_BEFORE_APPEND = "leader-killed-before-append"
    LEADER_KILLED_AFTER_APPEND = "leader-killed-after-append"
    """After the append and before the acknowledgement."""
    LEADER_KILLED_AFTER_ACK = "leader-killed-after-ack"
    """After the acknowledgement and before the followers have the record (acks=1); with acks=all
    after the acknowledgement."""
    LEADER_ISOLATED = "leader-isolated"
    """From the other nodes; its clients still reach it."""
    FOLLOWER_ISOLATED = "follower-isolated"
    LEADER_PAUSED = "leader-paused"
    """Past its session, then woken: it does not know that it was replaced."""
    ISR_SHRUNK = "isr-shrunk-leader-lost"
    """The ISR shrinks to the leader, which is then lost with its disk."""
    POWER_LOSS_ONE = "power-loss-one"
    POWER_LOSS_ALL = "power-loss-all"
    CLOCK_JUMP = "clock-jump"
    ROLLING_RESTART = "rolling-restart"
    """Each node in turn is stopped in good order and started again, as in an upgrade."""
    COORDINATOR_KILLED = "coordinator-killed"
    """Of the group, or of the transactions."""
    PRODUCER_KILLED = "producer-killed"
    """In the middle of a batch or transaction; another one of the same id goes on."""
    CONSUMER_KILLED_BEFORE = "consumer-killed-before"
    """After it has received records, before it processes and commits them."""
    CONSUMER_KILLED_BETWEEN = "consumer-killed-between"
    """Between processing and committing, whichever comes first."""
    CONSUMER_KILLED_AFTER = "consumer-killed-after"
    """After both."""
    CONSUMER_PAUSED = "consumer-paused"
    """Past its session, then woken: a zombie."""
    REBALANCE = "rebalance"
    """Another member joins and leaves while records are processed."""


class Cell(NamedTuple):
    """One choice of each.

    Attributes:
        producer: how it sends.
        topic: where it is stored.
        consumer: how it is consumed; None where only the log is looked at.
        fault: what goes wrong.
    """

    producer: ProducerMode
    topic: TopicMode
    consumer: ConsumerMode | None
    fault: Fault

    def __str__(self) -> str:
        consumer = "none" if self.consumer is None else str(self.consumer)
        return f"p.{self.producer}_t.{self.topic}_c.{consumer}_f.{self.fault.value}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """The cell of a name.

        Raises:
            ValueError: no cell of the matrix has this name.
        """
        found = _by_name().get(name)
        if found is None:
            raise ValueError(f"no cell of the matrix is called {name!r}")
        return cls(*found)


PRODUCERS = (
    ProducerMode(Acks.NONE, retries=False),
    ProducerMode(Acks.LEADER, retries=False),
    ProducerMode(Acks.LEADER),
    ProducerMode(Acks.LEADER, in_flight_max=5),
    ProducerMode(Acks.ALL, retries=False),
    ProducerMode(Acks.ALL),
    ProducerMode(Acks.ALL, in_flight_max=5),
    ProducerMode(Acks.ALL, is_idempotent=True, in_flight_max=5),
    ProducerMode(Acks.ALL, is_idempotent=True, is_transactional=True, in_flight_max=5),
)
TOPICS = tuple(
    TopicMode(replicas, min_insync, is_synced)
    for is_synced in (False, True)
    for replicas, min_insync in ((1, 1), (3, 1), (3, 2))
)
CONSUMERS = tuple(
    ConsumerMode(commit, is_read_committed)
    for commit in Commit
    for is_read_committed in (False, True)
)
_ON_THE_CONSUMER = (
    Fault.NONE,
    Fault.CONSUMER_KILLED_BEFORE,
    Fault.CONSUMER_KILLED_BETWEEN,
    Fault.CONSUMER_KILLED_AFTER,
    Fault.CONSUMER_PAUSED,
    Fault.REBALANCE,
    Fault.COORDINATOR_KILLED,
    Fault.LEADER_KILLED_AFTER_ACK,
    Fault.PRODUCER_KILLED,
)
_ONLY_WITH_FOLLOWERS = frozenset(
    {Fault.LEADER_ISOLATED, Fault.FOLLOWER_ISOLATED, Fault.ISR_SHRUNK, Fault.ROLLING_RESTART}
)
_ONLY_CONSUMERS = frozenset(one for one in _ON_THE_CONSUMER if one.name.startswith("CONSUMER"))


def cells() -> Iterator[Cell]:
    """The whole matrix: the producer's side first, then the consumer's."""
    for producer in PRODUCERS:
        for topic in TOPICS:
            for fault in Fault:
                if fault in _ONLY_CONSUMERS or fault is Fault.REBALANCE:
                    continue
                if fault in _ONLY_WITH_FOLLOWERS and topic.replicas == 1:
                    continue
                if fault is Fault.COORDINATOR_KILLED and not producer.is_transactional:
                    continue
                yield Cell(producer, topic, None, fault)
    for producer in PRODUCERS[-2:]:
        for consumer in CONSUMERS:
            if consumer.is_read_committed and not _has_transactions(producer, consumer):
                continue  # the same as read_uncommitted
            for fault in _ON_THE_CONSUMER:
                yield Cell(producer, TopicMode(), consumer, fault)


def _has_transactions(producer: ProducerMode, consumer: ConsumerMode) -> bool:
    return producer.is_transactional or consumer.commit is Commit.TRANSACTION


_NAMES: dict[str, Cell] = {}


def _by_name() -> dict[str, Cell]:
    if not _NAMES:
        _NAMES.update((str(cell), cell) for cell in cells())
    return _NAMES
