"""The follower's side of a replicated partition: fetch, cut what the leader lacks, append.

One `FollowerReplica` per partition that this broker follows. The shell fetches from `position`,
passes the response to `answered`, and immediately applies the effects to the log; the machine
reads the log's offsets and epochs but never changes it.

=============  ==========================  ========================================================
state          event                       then
=============  ==========================  ========================================================
TRUNCATING     diverging answer            cut; ask again: TRUNCATING
TRUNCATING     an answer that agrees       append, follow the high watermark: FETCHING
FETCHING       an answer that agrees       append, follow the high watermark
FETCHING       diverging answer            cut (the leader's log changed unnoticed): TRUNCATING
both           OFFSET_OUT_OF_RANGE         cut or restart at the leader's start: TRUNCATING
both           another error, no answer    WAITING, with back-off
both           append_failed               WAITING
WAITING        its time has come           TRUNCATING
all            leader_changed              TRUNCATING
all            answer to another question  nothing
=============  ==========================  ========================================================

TRUNCATING means: the log may hold records that this leader lacks. Consumers must not see them, so a
diverging answer never moves the high watermark (KAFKA-14704); an answer that agrees proves that
everything below the fetch offset is the leader's, and only then min(leader's high watermark, own
end) is right. An answer counts only for the current position: same leader epoch, same offset, same
last epoch (KAFKA-7786, KAFKA-7164).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from minikafka.protocol.errors import ErrorCode
from minikafka.storage.disk import Buffer
from minikafka.storage.leader_epochs import EpochEndOffset, LeaderEpochCache

from .damage import DamagedLog, first_damage
from .divergence import EpochHistory, truncation_offset
from .effects import (
    AdvanceLogStart,
    AppendRecords,
    FollowerEffect,
    FollowHighWatermark,
    RestartAt,
    TruncateTo,
)

__all__ = ["FetchAnswer", "FetchPosition", "FollowerLog", "FollowerReplica", "FollowerState"]

RETRY_TIME_MIN_S: Final = 0.02
RETRY_TIME_MAX_S: Final = 1.0
"""After an error a follower retries after RETRY_TIME_MIN_S, doubling up to this."""


class FollowerState(Enum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"
    WAITING = "waiting"


class FollowerLog(EpochHistory, DamagedLog, Protocol):
    """The part of `minikafka.storage.log.Log` that a follower reads."""

    @property
    def high_watermark(self) -> int:
        """First offset that is not known to be committed."""
        ...

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Where each epoch began."""
        ...


class FetchPosition(NamedTuple):
    """What a follower asks its leader.

    Attributes:
        leader_epoch: Of the leader that the request is meant for.
        fetch_offset: The follower has everything below it.
        last_fetched_epoch: Leader epoch of the record before it, -1 without one.
        log_start_offset: The follower's.
    """

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchAnswer(NamedTuple):
    """What the leader answers.

    Attributes:
        error_code: OFFSET_OUT_OF_RANGE comes with the leader's offsets; other errors alone.
        diverging: Where the logs diverge (then there are no records); None if they agree.
        records: Whole batches from the fetch offset on, None when there are none.
    """

    error_code: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    diverging: EpochEndOffset | None = None
    records: Buffer | None = None


class FollowerReplica:
    """A partition's follower. Times are seconds of any monotonic clock.

    Call `begin` once, first; report later leaders with `leader_changed`.
    """

    __slots__ = ("_attempts", "_log", "leader_epoch", "leader_id", "retry_at", "state")

    def __init__(self, log: FollowerLog, *, leader_id: int, leader_epoch: int) -> None:
        self._log: Final = log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.state = FollowerState.TRUNCATING
        self.retry_at = 0.0
        self._attempts = 0

    def begin(self) -> list[FollowerEffect]:
        """Begin to follow: cut the log at the first damage (see `damage`)."""
        damaged_from = first_damage(self._log)
        if damaged_from is None:
            return []
        return [TruncateTo(damaged_from, is_below_high_watermark=False)]

    def leader_changed(self, leader_id: int, leader_epoch: int) -> None:
        """The metadata log names a leader; an older epoch is ignored."""
        if leader_epoch > self.leader_epoch:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.state = FollowerState.TRUNCATING
            self._attempts = 0

    def position(self) -> FetchPosition | None:
        """The next fetch; None while WAITING."""
        if self.state is FollowerState.WAITING:
            return None
        log = self._log
        return FetchPosition(
            self.leader_epoch,
            log.log_end_offset,
            log.leader_epochs.latest_epoch,
            log.log_start_offset,
        )

    def answered(
        self, asked: FetchPosition, answer: FetchAnswer, now: float
    ) -> list[FollowerEffect]:
        """Turn the leader's answer to ``asked`` into changes of the log."""
        effects: list[FollowerEffect] = []
        log = self._log
        if (
            self.state is FollowerState.WAITING
            or asked.leader_epoch != self.leader_epoch
            or asked.fetch_offset != log.log_end_offset
            or asked.last_fetched_epoch != log.leader_epochs.latest_epoch
        ):
            return effects
        if answer.error_code is not ErrorCode.NONE:
            if answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range(answer, effects)
            if not effects:
                self._wait(now)
        elif answer.diverging is not None:
            self.state = FollowerState.TRUNCATING
            self._cut(truncation_offset(log, answer.diverging), answer, effects)
        else:
            self.state = FollowerState.FETCHING
            self._attempts = 0
            if answer.records is not None:
                effects.append(AppendRecords(answer.records))
            if answer.records is not None or answer.high_watermark != log.high_watermark:
                effects.append(FollowHighWatermark(answer.high_watermark))
            if answer.log_start_offset > log.log_start_offset:
                effects.append(AdvanceLogStart(answer.log_start_offset))
        return effects

    def not_answered(self, now: float) -> None:
        """The leader could not be reached, or its answer was malformed."""
        if self.state is not FollowerState.WAITING:
            self._wait(now)

    def append_failed(self, now: float) -> None:
        """The log refused the leader's records (CorruptMessage, UnexpectedAppendOffset)."""
        self._wait(now)

    def deadline(self) -> float | None:
        """When `expire` ends WAITING."""
        return self.retry_at if self.state is FollowerState.WAITING else None

    def expire(self, now: float) -> None:
        """End WAITING if it is time."""
        if self.state is FollowerState.WAITING and now >= self.retry_at:
            self.state = FollowerState.TRUNCATING

    # --- inside ----------------------------------------------------------------------------------

    def _wait(self, now: float) -> None:
        pause_s = min(RETRY_TIME_MIN_S * 2 ** min(self._attempts, 8), RETRY_TIME_MAX_S)
        self._attempts += 1
        self.retry_at = now + pause_s
        self.state = FollowerState.WAITING

    def _out_of_range(self, answer: FetchAnswer, effects: list[FollowerEffect]) -> None:
        """The leader has no record at our end, or no epoch to compare ours with."""
        log = self._log
        self.state = FollowerState.TRUNCATING
        if log.log_end_offset < answer.log_start_offset:
            # Retention on the leader was faster than we are; what it deleted we may delete.
            effects.append(RestartAt(answer.log_start_offset, is_below_high_watermark=False))
        elif log.leader_epochs.latest_epoch > self.leader_epoch:
            # There is no newer epoch than the leader's: no CRC covers the epoch of a batch, and a
            # bit of this one is wrong.
            own = log.end_offset_for_epoch(self.leader_epoch)
            self._cut(own.end_offset, answer, effects)
        elif log.log_end_offset > answer.log_end_offset:
            self._cut(answer.log_end_offset, answer, effects)

    def _cut(self, offset: int, answer: FetchAnswer, effects: list[FollowerEffect]) -> None:
        log = self._log
        is_below_high_watermark = offset < log.high_watermark
        if offset < log.log_start_offset:
            # Nothing here agrees: begin where the leader begins, not in its middle.
            effects.append(RestartAt(answer.log_start_offset, is_below_high_watermark))
        else:
            effects.append(TruncateTo(offset, is_below_high_watermark))
