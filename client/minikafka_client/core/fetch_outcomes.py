"""What a broker's answer for one partition means for the partition.

An offset that is no longer there (retention, DeleteRecords) is reset as ``auto_offset_reset`` says.
A log that was truncated, or a topic that was made anew, is read again from where it differs from
what was read before; without a reset policy the application is told (KIP-320). Both wait until the
application has been given what was fetched before.
"""

from __future__ import annotations

import logging
import math
from typing import Final, cast

from minikafka.protocol.messages.fetch import EpochEndOffset, PartitionData
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.core.fetcher_messages import FetcherConfig
from minikafka_client.core.partition_reader import PartitionReader
from minikafka_client.errors import CorruptRecordsError, LogTruncationError, NoOffsetError
from minikafka_client.log_events import LogEvent
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    AutoOffsetReset,
    IsolationLevel,
    OffsetAndMetadata,
)

logger = logging.getLogger(__name__)

RESET_SPECS: Final = {AutoOffsetReset.EARLIEST: EARLIEST, AutoOffsetReset.LATEST: LATEST}


def keep_records(config: FetcherConfig, reader: PartitionReader, outcome: PartitionData) -> bool:
    """Keep what was fetched; False when it is nothing, or not readable (then the reader fails)."""
    reader.attempts = 0
    is_committed = config.isolation_level is IsolationLevel.READ_COMMITTED
    reader.end_offset = outcome.last_stable_offset if is_committed else outcome.high_watermark
    reader.log_start_offset = outcome.log_start_offset
    if outcome.records is None or not len(outcome.records):
        return False
    aborted = None
    if is_committed:
        aborted = [
            (each.producer_id, each.first_offset) for each in outcome.aborted_transactions or ()
        ]
    try:
        records = FetchedRecords(
            reader.partition,
            cast("memoryview", outcome.records),  # what a decoded payload always is
            reader.fetch_offset,
            aborted=aborted,
            check_crcs=config.check_crcs,
        )
    except CorruptBatchError as error:
        topic, partition = reader.partition
        reader.fail(
            CorruptRecordsError(
                f"partition {partition} of topic {topic!r}, at offset {reader.fetch_offset}: "
                f"{error}; seek past it, or restore the broker's log"
            )
        )
        return False
    if records.next_offset == reader.fetch_offset:
        return False  # not one whole batch: the broker did not finish it in this response
    reader.take(records)
    return True


def is_truncation(outcome: PartitionData) -> bool:
    """Whether a broker says where its log parts from ours, instead of sending records."""
    return outcome.diverging_epoch.epoch >= 0 and outcome.diverging_epoch.end_offset >= 0


def truncated(config: FetcherConfig, reader: PartitionReader, parting: EpochEndOffset) -> None:
    """The leader's log has other records than those that we read, from its ``end_offset`` on."""
    if parting.end_offset >= reader.fetch_offset:
        reader.fetched_epoch = parting.epoch  # behind what we have: nothing of it is gone
        return
    if reader.fetched:
        reader.unfetch()  # nobody has seen it yet
        return
    if not _is_ready_to_move(reader):
        return
    divergent = OffsetAndMetadata(parting.end_offset, "", parting.epoch)
    if config.auto_offset_reset is AutoOffsetReset.NONE:
        _fail_truncated(reader, divergent)
        return
    logger.warning(
        "partition %d of topic %r was truncated: reading again from offset %d, after records "
        "before %d were read",
        reader.partition.partition,
        reader.partition.topic,
        divergent.offset,
        reader.position,
        extra=LogEvent.LOG_TRUNCATED.about(
            topic=reader.partition.topic,
            partition=reader.partition.partition,
            position=reader.position,
            divergent_offset=divergent.offset,
        ),
    )
    reader.seek(divergent.offset, divergent.leader_epoch)


def made_anew(config: FetcherConfig, reader: PartitionReader) -> None:
    """The topic was deleted, and another one has its name: nothing that was read is in it."""
    reader.unfetch()
    if not _is_ready_to_move(reader):
        return
    if config.auto_offset_reset is AutoOffsetReset.NONE:
        _fail_truncated(reader, OffsetAndMetadata(0))
        return
    logger.warning(
        "topic %r was deleted and made anew: reading its partition %d from the beginning",
        reader.partition.topic,
        reader.partition.partition,
        extra=LogEvent.TOPIC_MADE_ANEW.about(
            topic=reader.partition.topic, partition=reader.partition.partition
        ),
    )
    reader.reset(EARLIEST)


def out_of_range(config: FetcherConfig, reader: PartitionReader) -> None:
    """The offset is before the log's first one, or beyond its end."""
    if not _is_ready_to_move(reader):
        return
    topic, partition = reader.partition
    spec = RESET_SPECS.get(config.auto_offset_reset)
    if spec is None:
        reader.fail(
            NoOffsetError(
                f"partition {partition} of topic {topic!r} has no offset {reader.position} (any "
                f"more); seek, or set auto_offset_reset"
            )
        )
        return
    logger.warning(
        "partition %d of topic %r has no offset %d (any more): going on at the %s one",
        partition,
        topic,
        reader.position,
        config.auto_offset_reset.value,
        extra=LogEvent.OFFSET_RESET.about(
            topic=topic, partition=partition, position=reader.position
        ),
    )
    reader.reset(spec)


def _is_ready_to_move(reader: PartitionReader) -> bool:
    """What is here is handed out first; the offset after it is asked for again then."""
    if reader.is_drained:
        return True
    reader.retry_at = math.inf
    return False


def _fail_truncated(reader: PartitionReader, divergent: OffsetAndMetadata) -> None:
    position = OffsetAndMetadata(reader.position, "", reader.leader_epoch)
    reader.fail(LogTruncationError(reader.partition, position, divergent))
