"""Where two logs diverge (KIP-101, KIP-279, KIP-595), seen by the leader and by the follower.

Two logs agree up to an offset when the record before it has the same leader epoch in both: one
leader writes an epoch's records, each offset once. A follower therefore fetches with the epoch of
its last record. A leader that does not have that record answers with the largest epoch it knows
at or below that one, and where it ended. The follower cuts to the smaller of that end and its own
end of that epoch, and asks again from its new last record: every step leaves an older epoch, so it
terminates. High watermarks play no part: a follower's always lags (KAFKA-1211).
"""

from __future__ import annotations

from typing import Protocol

from minikafka.storage.errors import OffsetOutOfRange
from minikafka.storage.leader_epochs import NO_EPOCH, EpochEndOffset

__all__ = ["EpochHistory", "find_divergence", "truncation_offset"]


class EpochHistory(Protocol):
    """The part of `minikafka.storage.log.Log` that both sides use."""

    @property
    def log_start_offset(self) -> int:
        """First offset that can be read."""
        ...

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        ...

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch at or below it, and its end; (-1, -1) when it is newer than all."""
        ...


def find_divergence(
    log: EpochHistory, *, fetch_offset: int, last_fetched_epoch: int
) -> EpochEndOffset | None:
    """Check whether a fetch continues the leader's log. Also for consumers (KIP-320).

    Args:
        log: The leader's.
        fetch_offset: What the fetch asks for.
        last_fetched_epoch: Leader epoch of the record before it, -1 when there is none (or the
            client does not say).

    Returns:
        None to serve the fetch; otherwise the diverging epoch and its end, for the answer.

    Raises:
        OffsetOutOfRange: the log does not have that offset, or no epoch to compare with.
    """
    if fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(
            f"offset {fetch_offset} was requested, the log begins at {log.log_start_offset}"
        )
    if last_fetched_epoch != NO_EPOCH:
        end = log.end_offset_for_epoch(last_fetched_epoch)
        if end.leader_epoch == NO_EPOCH:
            raise OffsetOutOfRange(f"leader epoch {last_fetched_epoch} is not known here")
        if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return end
    elif fetch_offset > log.log_end_offset:
        raise OffsetOutOfRange(
            f"offset {fetch_offset} was requested, the log ends at {log.log_end_offset}"
        )
    return None


def truncation_offset(log: EpochHistory, diverging: EpochEndOffset) -> int:
    """Where a follower cuts its log after a diverging answer.

    Args:
        log: The follower's.
        diverging: The largest epoch the leader knows at or below the follower's last one, and
            where it ended.

    Returns:
        At most the log's end; below the log's start when nothing in it agrees.
    """
    own = log.end_offset_for_epoch(diverging.leader_epoch)
    if own.leader_epoch == diverging.leader_epoch:
        return min(own.end_offset, diverging.end_offset, log.log_end_offset)
    if own.leader_epoch == NO_EPOCH:
        # The leader's epoch is newer than any of ours, or we have none: all epochs agree.
        return min(diverging.end_offset, log.log_end_offset)
    # We lack the leader's epoch but have an older one: what follows that is not the leader's.
    return min(own.end_offset, log.log_end_offset)
