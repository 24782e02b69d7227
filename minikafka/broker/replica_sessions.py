"""What a leader remembers between the fetches of one follower.

How replica fetch travels. A follower sends one request at a time to each leader (operation
``fetch``), and the leader answers when it has something to say or the wait is over. Both sides
remember the partitions in between, so a request lists only what changed and an answer only what is
news:

    request  [session id, number, broker epoch, wait in ms, min bytes, max bytes, max bytes of a
             partition, positions, slots to forget, slots whose log failed at the follower]
    position [slot, topic id, partition, leader epoch, fetch offset, last fetched epoch,
             log start offset]
    answer   [status, news]; the records of the news that have some are the attachments, in order
    news     [slot, error code, high watermark, log start offset, log end offset, diverging epoch,
             its end offset, has records]

A *slot* is a number that the follower gives to a partition for as long as it fetches it there. The
first request of a session has number 0; a number that does not follow ends the session (status
`SESSION_LOST`), and the follower begins another. An unchanged position holds: the follower still
waits there. After news with an error, or with a diverging epoch, nothing comes for that slot until
the follower sends its position again.

What was sent is never repeated by the leader: the next position says what became of it. High
watermarks travel with records, and alone when the wait is over (at once when consumers are sent to
followers, KIP-392).

``fetch-wake`` (one way, the session id) ends the wait: the follower has new positions to send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..protocol.errors import ErrorCode
from .partition import Partition

FETCH = "fetch"
FETCH_WAKE = "fetch-wake"

OK = 0
SESSION_LOST = 1

PARTITIONS_PER_SESSION_MAX = 200_000
NEWS_PER_ANSWER_MAX = 10_000

Respond = Callable[[Any, list[Any]], None]


class Position(NamedTuple):
    """What a follower asks for one partition."""

    slot: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Answer:
    """News on their way to a follower.

    Attributes:
        news: see the module's text.
        served: those that have records.
        attachments: their records.
        size_bytes: of all records.
        is_full: nothing more fits.
    """

    __slots__ = (
        "_max_bytes",
        "_partition_bytes",
        "attachments",
        "is_full",
        "is_urgent",
        "news",
        "served",
        "size_bytes",
    )

    def __init__(self, max_bytes: int, partition_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._partition_bytes = partition_bytes
        self.news: list[tuple[Any, ...]] = []
        self.served: list[Served] = []
        self.attachments: list[Any] = []
        self.size_bytes = 0
        self.is_full = False
        self.is_urgent = False

    @property
    def room_bytes(self) -> int:
        """How many bytes of one more partition fit."""
        return max(0, min(self._partition_bytes, self._max_bytes - self.size_bytes))

    def is_enough(self, min_bytes: int) -> bool:
        """Whether it can be sent."""
        return self.is_full or self.is_urgent or self.size_bytes >= min_bytes

    def add(self, news: tuple[Any, ...]) -> None:
        """Tell something that is no record; it is told at once."""
        self.news.append(news)
        self.is_urgent = True
        if len(self.news) >= NEWS_PER_ANSWER_MAX:
            self.is_full = True

    def add_records(
        self, served: Served, news: tuple[Any, ...], records: Any, size_bytes: int
    ) -> None:
        """Send records."""
        self.news.append(news)
        self.served.append(served)
        self.attachments.append(records)
        self.size_bytes += size_bytes
        if len(self.news) >= NEWS_PER_ANSWER_MAX or self.size_bytes >= self._max_bytes:
            self.is_full = True

    def emptied(self) -> Answer:
        """Take the records back, which are too few to be sent; returns another answer."""
        for served in self.served:
            served.take_back()
        return Answer(self._max_bytes, self._partition_bytes)

    def refuse(self, slot: int, error_code: ErrorCode, start: int = -1, end: int = -1) -> None:
        """Tell an error, with where the log starts and ends if that matters."""
        self.add((slot, int(error_code), -1, start, end, -1, -1, False))


class Served:
    """One partition in a session.

    Attributes:
        position: where the follower waits.
        partition: what is served, once the position was accepted.
        is_open: the follower waits for records; False from when some were sent until it says what
            became of them.
        told_high_watermark: the last one that the follower was told.
        told_log_start: likewise.
    """

    __slots__ = (
        "_session",
        "is_open",
        "partition",
        "position",
        "told_high_watermark",
        "told_log_start",
    )

    def __init__(self, session: Session, position: Position) -> None:
        self._session = session
        self.position = position
        self.partition: Partition | None = None
        self.is_open = False
        self.told_high_watermark = -1
        self.told_log_start = -1

    def notify(self, partition: Partition) -> None:
        """The partition has records, or another role."""
        del partition
        if self.is_open:
            session = self._session
            session.fresh[self] = None
            if session.respond is not None:
                session.on_ready(session)

    def take_back(self) -> None:
        """What was to be sent is not, so it is as fresh as before."""
        self.is_open = True
        self.told_high_watermark = self.told_log_start = -1
        self._session.fresh[self] = None

    def attach(self, partition: Partition) -> None:
        """Serve a partition from now on."""
        if self.partition is not partition:
            self.detach()
            self.partition = partition
            partition.fetchers[self] = None

    def detach(self) -> None:
        """Serve nothing until the next position."""
        if self.partition is not None:
            self.partition.fetchers.pop(self, None)
            self.partition = None


class Session:
    """One follower's memory here.

    Attributes:
        served: by slot.
        fresh: partitions that may have something to say, oldest news first.
        unknown: positions that are ahead of this broker's metadata.
        behind: partitions whose high watermark the follower may not know.
        delayed: partitions that are throttled, and until when.
        respond: how to answer the request that is open, None when none is.
        deadline: when its wait is over.
        min_bytes: what it waits for.
        answer: what it will be told.
    """

    __slots__ = (
        "answer",
        "behind",
        "broker_epoch",
        "deadline",
        "delayed",
        "fresh",
        "min_bytes",
        "next_number",
        "node_id",
        "on_ready",
        "respond",
        "served",
        "session_id",
        "unknown",
    )

    def __init__(self, node_id: int, session_id: int, on_ready: Callable[[Session], None]) -> None:
        self.node_id = node_id
        self.session_id = session_id
        self.on_ready = on_ready
        self.next_number = 0
        self.broker_epoch = -1
        self.served: dict[int, Served] = {}
        self.fresh: dict[Served, None] = {}
        self.unknown: dict[Served, None] = {}
        self.behind: dict[Served, None] = {}
        self.delayed: dict[Served, float] = {}
        self.respond: Respond | None = None
        self.deadline = 0.0
        self.min_bytes = 1
        self.answer = Answer(0, 0)

    def send(self) -> None:
        """Answer the open request with what there is."""
        respond, self.respond = self.respond, None
        if respond is not None:
            respond((OK, self.answer.news), self.answer.attachments)

    def forget(self, slot: int) -> None:
        """The follower does not fetch a partition here any more."""
        served = self.served.pop(slot, None)
        if served is not None:
            served.detach()
            self.fresh.pop(served, None)
            self.unknown.pop(served, None)
            self.behind.pop(served, None)
            self.delayed.pop(served, None)

    def end(self) -> None:
        """Forget everything; an open request hears that the session is lost."""
        for slot in list(self.served):
            self.forget(slot)
        self.next_number = -1
        respond, self.respond = self.respond, None
        if respond is not None:
            respond((SESSION_LOST, ()), [])
