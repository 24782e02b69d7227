"""What followers are told: records, high watermarks, and where logs start."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import trio

from ..protocol.errors import ErrorCode
from ..storage.errors import LogError
from ..storage.log import Log
from .partition import Partition
from .replica_positions import Positions, close, is_news
from .replica_sessions import NEWS_PER_ANSWER_MAX, Answer, Served, Session
from .throttle import Throttle
from .transport import SENDFILE_SIZE_BYTES_MIN, FilePayload


class _LastRead(NamedTuple):
    """Everything from an offset to the end of a log; of another log after it was cut."""

    log: Log | None
    cut_count: int
    offset: int
    end_offset: int
    records: bytes


class News:
    """Reads what sessions have news of.

    Attributes:
        throttle: what may leave for throttled replicas (leader.replication.throttled.rate).
    """

    def __init__(
        self, positions: Positions, rate_bytes: float, on_delayed: Callable[[float], None]
    ) -> None:
        """Begin.

        Args:
            positions: for partitions whose role has changed.
            rate_bytes: leader.replication.throttled.rate.
            on_delayed: called with the time at which a throttled replica may go on.
        """
        self.throttle = Throttle(rate_bytes)
        self._positions = positions
        self._on_delayed = on_delayed
        self._last_read = _LastRead(None, 0, 0, 0, b"")

    def collect(self, session: Session, answer: Answer) -> None:
        """Put into an answer what a session has news of, as far as there is room."""
        for served in list(session.fresh):
            if answer.is_full:
                return
            if not served.is_open:
                del session.fresh[served]
                continue
            partition = served.partition
            if (
                partition is None
                or not partition.is_leader
                or partition.leader_epoch != served.position.leader_epoch
            ):
                self._positions.accept(session, served, answer)
                partition = served.partition
                if partition is None or served not in session.fresh:
                    continue
            del session.fresh[served]
            self._read(session, served, partition, answer)

    def _read(self, session: Session, served: Served, partition: Partition, answer: Answer) -> None:
        log, position = partition.log, served.position
        is_throttled = bool(partition.topic.throttled_at_leader) and self._is_throttled(
            session, partition
        )
        if is_throttled:
            now = trio.current_time()
            wait_s = self.throttle.wait_s(now)
            if wait_s:
                session.delayed[served] = now + wait_s
                self._on_delayed(now + wait_s)
                return
        try:
            records = self._records(log, position.fetch_offset, answer)
        except LogError as error:
            close(served)
            code = ErrorCode(error.error_code)
            answer.refuse(position.slot, code, log.log_start_offset, log.log_end_offset)
            return
        offsets = (log.high_watermark, log.log_start_offset, log.log_end_offset)
        if records is not None:
            size_bytes = len(records)
            news = (position.slot, 0, *offsets, -1, -1, True)
            answer.add_records(served, news, records, size_bytes)
            served.is_open = False
            served.told_high_watermark, served.told_log_start = offsets[:2]
            session.behind[served] = None
            if is_throttled:
                self.throttle.passed(size_bytes, trio.current_time())
        elif position.fetch_offset < log.log_end_offset:
            session.fresh[served] = None  # there was no room for it; it is first the next time
            answer.is_full = True
        elif is_news(served, log):
            self._tell(session, served, log, answer)

    def _records(self, log: Log, offset: int, answer: Answer) -> FilePayload | bytes | None:
        """What a log has from an offset on, as far as there is room for it.

        Followers in sync ask for the same one after the other, so a small read is kept for the
        next one.

        Raises:
            LogError: the log does not have the offset, or the disk failed.
        """
        last, end_offset = self._last_read, log.log_end_offset
        if (
            last.log is log
            and last.cut_count == log.cut_count
            and last.offset == offset
            and last.end_offset == end_offset
            and len(last.records) <= answer.room_bytes
            and log.is_offline is None
        ):
            return last.records
        read = log.read(
            offset,
            size_bytes_max=answer.room_bytes,
            upper_bound_offset=end_offset,
            minimum_one_batch=not answer.size_bytes,
        )
        found = read.records
        if found is None:
            return None
        if found.size_bytes >= SENDFILE_SIZE_BYTES_MIN:
            return FilePayload(found)
        try:
            records = found.read()
        except OSError as error:
            raise log.fail(error) from error
        if read.next_offset == end_offset:
            self._last_read = _LastRead(log, log.cut_count, offset, end_offset, records)
        return records

    def _is_throttled(self, session: Session, partition: Partition) -> bool:
        """Whether a follower is to be slowed down: those in sync are never."""
        topic, leader = partition.topic, partition.leader
        return (
            leader is not None
            and session.node_id not in leader.isr.isr
            and topic.is_throttled(topic.throttled_at_leader, partition.index, session.node_id)
        )

    def tell_high_watermarks(self, session: Session, answer: Answer) -> None:
        """The wait is over: tell what went without saying so far."""
        for served in list(session.behind):
            if len(answer.news) >= NEWS_PER_ANSWER_MAX:
                return
            partition = served.partition
            del session.behind[served]
            if partition is None or not partition.is_leader or served in session.fresh:
                continue
            log = partition.log
            if is_news(served, log):
                self._tell(session, served, log, answer)
            elif log.high_watermark < log.log_end_offset:
                session.behind[served] = None

    @staticmethod
    def _tell(session: Session, served: Served, log: Log, answer: Answer) -> None:
        """Tell a high watermark and where the log starts, without records."""
        offsets = (log.high_watermark, log.log_start_offset, log.log_end_offset)
        answer.add((served.position.slot, 0, *offsets, -1, -1, False))
        served.told_high_watermark, served.told_log_start = offsets[:2]
        if log.high_watermark < log.log_end_offset:
            session.behind[served] = None
