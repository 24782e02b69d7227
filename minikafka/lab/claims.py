"""Sentences about delivery, as data: what each says of which cells of the matrix.

A claim is stamped true if all that it says holds in every run of its cells, and false if one run
shows the contrary. `expected` is the stamp that we expect: a lab that stamps otherwise is red.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum
from typing import NamedTuple

from .matrix import Acks, Cell, Commit, Fault, cells


class Where(NamedTuple):
    """Some cells of the matrix; None leaves a choice open.

    Attributes:
        has_consumer: whether records are consumed; a `commits` or `isolation` implies it.
    """

    acks: Collection[Acks] | None = None
    retries: bool | None = None
    is_idempotent: bool | None = None
    is_transactional: bool | None = None
    in_flight_max: Collection[int] | None = None
    replicas: Collection[int] | None = None
    min_insync: Collection[int] | None = None
    is_synced: bool | None = None
    commits: Collection[Commit] | None = None
    is_read_committed: bool | None = None
    faults: Collection[Fault] | None = None
    without: Collection[Fault] = ()
    has_consumer: bool = False

    def has(self, cell: Cell) -> bool:
        """Whether a cell is one of them."""
        producer, topic, consumer, fault = cell
        wants_consumer = (
            self.has_consumer or self.commits is not None or self.is_read_committed is not None
        )
        if wants_consumer != (consumer is not None) or fault in self.without:
            return False
        pairs: list[tuple[object, Collection[object] | None]] = [
            (producer.acks, self.acks),
            (producer.retries, _one(self.retries)),
            (producer.is_idempotent, _one(self.is_idempotent)),
            (producer.is_transactional, _one(self.is_transactional)),
            (producer.in_flight_max, self.in_flight_max),
            (topic.replicas, self.replicas),
            (topic.min_insync, self.min_insync),
            (topic.is_synced, _one(self.is_synced)),
            (fault, self.faults),
        ]
        if consumer is not None:
            pairs.append((consumer.commit, self.commits))
            pairs.append((consumer.is_read_committed, _one(self.is_read_committed)))
        return all(wanted is None or value in wanted for value, wanted in pairs)

    def cells(self) -> Iterator[Cell]:
        """They, out of the matrix."""
        return (cell for cell in cells() if self.has(cell))


def _one(value: bool | None) -> Collection[object] | None:
    return None if value is None else (value,)


class Bound(Enum):
    """How often something happens, according to a claim."""

    NEVER = "never"
    """In no run."""
    SHOWN = "can happen"
    """In at least one run; of each of the cells, if there are enough seeds."""


class Says(NamedTuple):
    """One thing that a claim says.

    Attributes:
        where: of which cells.
        what: a member of `Counts`.
        bound: how often it happens there.
    """

    where: Where
    what: str
    bound: Bound


class Costs(NamedTuple):
    """A claim about time.

    Attributes:
        measure: a member of `Run.measures`.
        of: whose median is taken.
        over: over whose it is divided; None for seconds.
        low: the claim holds from here
        high: to here, both included.
    """

    measure: str
    of: Where
    over: Where | None
    low: float
    high: float


class Claim(NamedTuple):
    """A sentence, and what it says.

    Attributes:
        id: short, for command lines and links.
        statement: in neutral words.
        says: all of it has to hold.
        expected: the stamp that we expect; None where a measurement on this machine decides.
        costs: for a claim about time.
        because: why it is so, for the reader who sees the stamp.
    """

    id: str
    statement: str
    says: tuple[Says, ...] = ()
    expected: bool | None = True
    costs: Costs | None = None
    because: str = ""


_KILLS = (
    Fault.LEADER_KILLED_BEFORE_APPEND,
    Fault.LEADER_KILLED_AFTER_APPEND,
    Fault.LEADER_KILLED_AFTER_ACK,
)
_MORE_THAN_PROMISED = (Fault.POWER_LOSS_ALL,)
"""Nothing that is only in page caches survives this."""
_BOTH = (Acks.LEADER, Acks.ALL)
_BEFORE_THE_COMMIT = (
    Fault.CONSUMER_KILLED_BEFORE,
    Fault.CONSUMER_KILLED_BETWEEN,
    Fault.CONSUMER_PAUSED,
)
"""What leaves records without a commit that were read, or processed."""
_CONSUMER_KILLS = (
    Fault.CONSUMER_KILLED_BEFORE,
    Fault.CONSUMER_KILLED_BETWEEN,
    Fault.CONSUMER_KILLED_AFTER,
)
_LEADER_LEAVES = (
    *_KILLS,
    Fault.LEADER_ISOLATED,
    Fault.LEADER_PAUSED,
    Fault.POWER_LOSS_ONE,
    Fault.POWER_LOSS_ALL,
    Fault.ROLLING_RESTART,
)
"""Requests that are under way then go to a leader of the past."""
_ACKNOWLEDGEMENT_IS_LATE = (
    Fault.ACK_LOST,
    Fault.LEADER_KILLED_AFTER_APPEND,
    Fault.LEADER_PAUSED,
    Fault.FOLLOWER_ISOLATED,
    Fault.POWER_LOSS_ONE,
    Fault.CLOCK_JUMP,
    Fault.ROLLING_RESTART,
)
"""The batch is stored, and the producer does not hear of it. (When the clock jumps, an
acknowledgement is lost.)"""
_REPLICATED = Where(replicas=(3,), min_insync=(2,))
_ACKS0 = Where(acks=(Acks.NONE,))
_ACKS1 = Where(acks=(Acks.LEADER,), replicas=(3,))
_ACKS1_RETRIES = _ACKS1._replace(retries=True)
_ACKSALL = _REPLICATED._replace(
    acks=(Acks.ALL,), retries=True, is_idempotent=False, without=_MORE_THAN_PROMISED
)
_IDEMPOTENT = _REPLICATED._replace(
    acks=(Acks.ALL,), is_idempotent=True, is_transactional=False, without=_MORE_THAN_PROMISED
)
_SYNCED = _IDEMPOTENT._replace(is_synced=True, without=())
_TRANSACTIONAL = _REPLICATED._replace(is_transactional=True, without=_MORE_THAN_PROMISED)


def _nothing(where: Where, *what: str) -> tuple[Says, ...]:
    return tuple(Says(where, one, Bound.NEVER) for one in what)


def _shown(where: Where, *what: str) -> tuple[Says, ...]:
    return tuple(Says(where, one, Bound.SHOWN) for one in what)


def _consuming(*commits: Commit, read_committed: bool | None = None) -> Where:
    return Where(commits=commits, is_read_committed=read_committed)


CLAIMS = (
    Claim(
        "acks0-at-most-once",
        "With acks=0, a record arrives at most once.",
        _nothing(_ACKS0, "repeated")
        + _shown(
            _ACKS0._replace(replicas=(3,), faults=(Fault.REQUEST_LOST, *_LEADER_LEAVES)), "lost"
        ),
        because="Nobody answers, so the producer has no reason to send a record again.",
    ),
    Claim(
        "acks1-loses-with-the-leader",
        "With acks=1, an acknowledged record is lost when the leader dies before it is replicated.",
        _shown(_ACKS1._replace(faults=(Fault.LEADER_KILLED_AFTER_ACK,)), "lost"),
        because="The next leader is a follower that never had the record.",
    ),
    Claim(
        "acks1-exactly-once",
        "acks=1 with retries is exactly-once.",
        _nothing(_ACKS1_RETRIES, "lost", "repeated"),
        expected=False,
        because="It loses with the leader, and repeats when an acknowledgement is lost.",
    ),
    Claim(
        "acksall-exactly-once",
        "acks=all alone is exactly-once.",
        _nothing(_ACKSALL, "lost", "repeated"),
        expected=False,
        because="A record whose acknowledgement is lost is sent, and stored, again.",
    ),
    Claim(
        "acksall-at-least-once",
        "acks=all with retries and min.insync.replicas=2 is at-least-once.",
        _nothing(_ACKSALL, "lost")
        + _shown(_ACKSALL._replace(faults=_ACKNOWLEDGEMENT_IS_LATE), "repeated"),
        because="What is acknowledged is on two replicas; what is not is sent again.",
    ),
    Claim(
        "no-retries-at-most-once",
        "acks=all without retries never repeats a record, and loses none that it acknowledged.",
        _nothing(
            _REPLICATED._replace(
                acks=(Acks.ALL,), retries=False, is_idempotent=False, without=_MORE_THAN_PROMISED
            ),
            "repeated",
            "lost",
        ),
        because="The application is told of an error and has to decide what to do.",
    ),
    Claim(
        "idempotent-exactly-once-in-the-log",
        "acks=all with min.insync.replicas=2 and idempotence neither loses nor repeats nor "
        "reorders.",
        _nothing(_IDEMPOTENT, "lost", "repeated", "reordered"),
        because="A batch that comes again has a sequence number that the log already knows.",
    ),
    Claim(
        "sequence-survives-the-leader",
        "The sequence number survives the leader, because it is in the replicated log.",
        _nothing(_IDEMPOTENT._replace(faults=_KILLS), "repeated"),
        because="The next leader rebuilds the producers' state from the batches themselves.",
    ),
    Claim(
        "too-few-replicas-are-refused",
        "A write with acks=all is refused while fewer replicas than min.insync.replicas are in "
        "sync.",
        _shown(_REPLICATED._replace(acks=(Acks.ALL,), faults=(Fault.ISR_SHRUNK,)), "too_few"),
        because="The leader answers NOT_ENOUGH_REPLICAS before it appends.",
    ),
    Claim(
        "min-insync-1-loses",
        "acks=all with min.insync.replicas=1 loses acknowledged records when the ISR has shrunk to "
        "the leader and the leader is lost.",
        _shown(
            Where(acks=(Acks.ALL,), replicas=(3,), min_insync=(1,), faults=(Fault.ISR_SHRUNK,)),
            "lost",
        ),
        because="'All in-sync replicas' was one replica.",
    ),
    Claim(
        "retries-reorder",
        "With several requests in flight and no idempotence, retries reorder records.",
        _shown(
            Where(
                acks=_BOTH,
                retries=True,
                is_idempotent=False,
                in_flight_max=(5,),
                replicas=(3,),
                faults=(Fault.REQUEST_LOST, *_LEADER_LEAVES),
            ),
            "reordered",
        ),
        because="The second request is stored while the first one waits for its retry.",
    ),
    Claim(
        "one-in-flight-keeps-the-order",
        "With one request in flight, retries keep the order.",
        _nothing(
            Where(
                acks=(Acks.ALL,),
                retries=True,
                is_idempotent=False,
                in_flight_max=(1,),
                replicas=(3,),
                min_insync=(2,),
                without=_MORE_THAN_PROMISED,
            ),
            "reordered",
        ),
        because="The next record is sent when the one before it is stored.",
    ),
    Claim(
        "a-killed-process-loses-nothing",
        "A broker that is killed, and starts again, loses nothing that it acknowledged.",
        _nothing(Where(acks=_BOTH, replicas=(1,), faults=_KILLS), "lost"),
        because="Written pages belong to the operating system, which goes on.",
    ),
    Claim(
        "power-loss-of-all-loses",
        "If all replicas lose power at once, records in the page cache are lost, whatever acks "
        "said.",
        _shown(Where(acks=_BOTH, is_synced=False, faults=(Fault.POWER_LOSS_ALL,)), "lost"),
        because="Kafka acknowledges what is in memory on every in-sync replica.",
    ),
    Claim(
        "fsync-survives-power-loss",
        "With flush.messages=1, acks=all, min.insync.replicas=2 and idempotence, even a power loss "
        "of all replicas loses and repeats nothing.",
        _nothing(_SYNCED, "lost", "repeated"),
        because="A replica counts a record only when its disk has it.",
    ),
    Claim(
        "clock-jumps-do-not-matter",
        "A jump of the clock neither loses nor repeats records of an idempotent producer.",
        _nothing(_IDEMPOTENT._replace(faults=(Fault.CLOCK_JUMP,)), "lost", "repeated"),
        because="Nothing that decides about a record depends on the time of day.",
    ),
    Claim(
        "rolling-restart-is-invisible",
        "A rolling restart loses, repeats and reorders nothing with acks=all and idempotence.",
        _nothing(
            _IDEMPOTENT._replace(faults=(Fault.ROLLING_RESTART,)), "lost", "repeated", "reordered"
        ),
        because="A node hands its partitions over before it stops.",
    ),
    Claim(
        "auto-commit-loses",
        "Auto-commit loses records when processing lags the commit.",
        _shown(_consuming(Commit.AUTO)._replace(faults=_CONSUMER_KILLS), "lost"),
        because="The position is committed while the records before it are still being processed.",
    ),
    Claim(
        "auto-commit-repeats",
        "Auto-commit repeats records when processing leads the commit.",
        _shown(
            _consuming(Commit.AUTO, Commit.AUTO_ON_POLL)._replace(faults=_BEFORE_THE_COMMIT),
            "repeated",
        ),
        because="What was processed since the last commit is read again.",
    ),
    Claim(
        "commit-before-at-most-once",
        "Committing before processing is at-most-once.",
        _nothing(_consuming(Commit.BEFORE), "repeated")
        + _shown(_consuming(Commit.BEFORE)._replace(faults=_CONSUMER_KILLS), "lost"),
        because="A crash after the commit skips what was not processed.",
    ),
    Claim(
        "commit-after-at-least-once",
        "Committing after processing is at-least-once.",
        _nothing(_consuming(Commit.AFTER_SYNC), "lost")
        + _shown(_consuming(Commit.AFTER_SYNC)._replace(faults=_BEFORE_THE_COMMIT), "repeated"),
        because="A crash before the commit reads again what was processed.",
    ),
    Claim(
        "async-commits-repeat",
        "Asynchronous commits after processing may repeat records, and lose none.",
        _nothing(_consuming(Commit.AFTER_ASYNC), "lost")
        + _shown(_consuming(Commit.AFTER_ASYNC)._replace(faults=_BEFORE_THE_COMMIT), "repeated"),
        because="The program goes on without knowing whether the commit was stored.",
    ),
    Claim(
        "offsets-with-results-exactly-once",
        "Offsets that are stored with the result are exactly-once.",
        _nothing(_consuming(Commit.WITH_RESULT), "lost", "repeated"),
        because="Result and position are in one transaction of the same database.",
    ),
    Claim(
        "upsert-looks-exactly-once",
        "An idempotent upsert makes at-least-once look exactly-once.",
        _nothing(_consuming(Commit.UPSERT), "lost", "repeated"),
        because="The second result replaces the first one, which is equal.",
    ),
    Claim(
        "transactions-exactly-once",
        "Consume-transform-produce in transactions is exactly-once for a read-committed reader.",
        _nothing(_consuming(Commit.TRANSACTION), "lost", "repeated"),
        because="Results and position are committed together, and zombies are fenced.",
    ),
    Claim(
        "read-committed-is-whole",
        "A read-committed reader never sees aborted or torn transactions.",
        _nothing(Where(is_transactional=True, is_read_committed=True), "aborted_read", "torn"),
        because="It reads up to the last stable offset, and leaves aborted transactions out.",
    ),
    Claim(
        "read-uncommitted-sees-aborted",
        "A read-uncommitted reader sees records of transactions that are aborted later.",
        _shown(Where(is_transactional=True, is_read_committed=False), "aborted_read"),
        because="It reads up to the high watermark, which knows nothing of transactions.",
    ),
    Claim(
        "only-replicated-records-are-read",
        "A consumer reads only what all in-sync replicas have: what was read does not vanish.",
        _nothing(Where(has_consumer=True), "vanished"),
        because="It reads below the high watermark.",
    ),
    Claim(
        "two-phase-commit",
        "Two-phase commit with a database loses and repeats nothing.",
        _nothing(_consuming(Commit.TWO_PHASE), "lost", "repeated"),
        because="Both sides have promised to commit before either does.",
    ),
    Claim(
        "spark-sink",
        "A Spark query with the exactly-once sink loses and repeats nothing.",
        _nothing(_consuming(Commit.SPARK_SINK), "lost", "repeated"),
        because="The number of the micro-batch is stored with what it wrote.",
    ),
    Claim(
        "acksall-latency",
        "acks=all costs about 2.5 times the latency of acks=1.",
        expected=None,
        costs=Costs(
            "ack_s",
            _IDEMPOTENT._replace(faults=(Fault.NONE,), is_synced=False),
            _ACKS1_RETRIES._replace(
                faults=(Fault.NONE,), in_flight_max=(5,), is_synced=False, min_insync=(2,)
            ),
            1.8,
            3.5,
        ),
        because="One more round trip, to the followers, is on the way.",
    ),
    Claim(
        "commit-latency",
        "Waiting for a commit of offsets takes about 10 ms.",
        expected=None,
        costs=Costs(
            "commit_s",
            _consuming(Commit.AFTER_SYNC)._replace(faults=(Fault.NONE,)),
            None,
            0.005,
            0.02,
        ),
        because="It is a write with acks=all to the offsets' topic.",
    ),
)


def claim_of(name: str) -> Claim:
    """The claim of an id.

    Raises:
        ValueError: no claim has this id; the message lists the ids.
    """
    for claim in CLAIMS:
        if claim.id == name:
            return claim
    raise ValueError(
        f"no claim is called {name!r}; there are {', '.join(one.id for one in CLAIMS)}"
    )
