"""What a follower's machine wants, done to its log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..replication import (
    AdvanceLogStart,
    AppendRecords,
    FollowerEffect,
    FollowHighWatermark,
    RestartAt,
    TruncateTo,
)

if TYPE_CHECKING:
    from .partition import Partition

logger = logging.getLogger(__name__)


def carry_out(partition: Partition, effects: Iterable[FollowerEffect], now_ms: int) -> None:
    """Do effects to a partition's log, in order.

    Raises:
        LogError: the log refuses what comes from the leader, or the disk failed.
    """
    log = partition.log
    for effect in effects:
        match effect:
            case AppendRecords(records):
                log.append_as_follower(records, now_ms=now_ms)
                log.expected_end_offset = 0  # what was lost once has been fetched again
            case FollowHighWatermark(offset):
                partition.follow_high_watermark(offset)
            case AdvanceLogStart(offset):
                log.advance_log_start_offset(min(offset, log.high_watermark))
            case TruncateTo(offset, is_below_high_watermark):
                _tell_cut(partition, offset, is_lost=is_below_high_watermark)
                log.truncate_to(offset)
                log.expected_end_offset = 0
            case RestartAt(offset, is_below_high_watermark):
                _tell_cut(partition, offset, is_lost=is_below_high_watermark)
                log.truncate_fully_and_start_at(offset, now_ms=now_ms)
                log.expected_end_offset = 0


def _tell_cut(partition: Partition, offset: int, *, is_lost: bool) -> None:
    end_offset = partition.log.log_end_offset
    if is_lost:
        logger.error(
            "%r: records that were committed are lost, for the leader has not offsets %d to %d; "
            "was there an unclean election?",
            *(partition, offset, end_offset),
        )
    elif offset != end_offset:
        logger.info("%r: cutting offsets %d to %d", partition, offset, end_offset)
