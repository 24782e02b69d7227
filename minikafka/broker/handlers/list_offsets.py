"""ListOffsets 1-11: the offset for a timestamp, or at an end of the log.

A timestamp selects the first record that is not older, if it is visible to the reader: below the
high watermark or, with read_committed, below the last stable offset. Negative timestamps mean

====  =====================  ======================================================================
-1    latest                 the high watermark or the last stable offset (KIP-98)
-2    earliest               the log start offset
-3    max timestamp, v7      the record with the largest timestamp (KIP-734)
-4    earliest local, v8     the log start offset: everything is local (KIP-405)
-5    latest tiered, v9      -1: nothing is tiered (KIP-1005)
-6    earliest pending, v11  -1: nothing is waiting to be tiered (KIP-1023)
====  =====================  ======================================================================

and any other, or one of a later version, is UNSUPPORTED_VERSION. ``replica_id`` -1 is a consumer;
any other sees the log end offset, and -2, Kafka's debugging consumer, also that of a follower. A
new leader that does not yet know the high watermark of its predecessor answers OFFSET_NOT_AVAILABLE
(before version 5 LEADER_NOT_AVAILABLE) where that matters (KIP-207). A duplicate partition is
INVALID_REQUEST. ``current_leader_epoch`` is fenced (KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...protocol.errors import ErrorCode
from ...protocol.messages import list_offsets
from ...storage.errors import LogError
from ...storage.leader_epochs import NO_EPOCH, NO_OFFSET
from ...storage.segment import NO_TIMESTAMP, TimestampOffset
from ..replicas.partition import Partition, PartitionError
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
_EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSIONS = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER = -1
_DEBUGGING_CONSUMER = -2
_OFFSET_NOT_AVAILABLE_FIRST = 5
_READ_COMMITTED = 1
_FOUND_NOWHERE = (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD)
_NOTHING = TimestampOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)


async def handle(
    broker: Broker, context: RequestContext, request: list_offsets.Request
) -> list_offsets.Response:
    pace = Pace(broker.clock.monotonic)
    repeated = await pace.repeated(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    topics: list[list_offsets.TopicResponse] = []
    async for topic in pace.each(request.topics):
        answers: list[list_offsets.PartitionResponse] = []
        async for asked in pace.each(topic.partitions):
            if (topic.name, asked.partition_index) in repeated:
                answers.append(_refused(asked, ErrorCode.INVALID_REQUEST))
                continue
            if asked.timestamp >= 0 or asked.timestamp == _MAX_TIMESTAMP:
                # This reads a batch from the disk and decodes it.
                await trio.lowlevel.checkpoint()
            answers.append(_answer(broker, topic.name, asked, request, context.api_version))
        topics.append(list_offsets.TopicResponse(name=topic.name, partitions=answers))
    return list_offsets.Response(topics=topics)


def _answer(
    broker: Broker,
    topic: str,
    asked: list_offsets.Partition,
    request: list_offsets.Request,
    version: int,
) -> list_offsets.PartitionResponse:
    if asked.timestamp < 0 and version < _FIRST_VERSIONS.get(asked.timestamp, version + 1):
        return _refused(asked, ErrorCode.UNSUPPORTED_VERSION)
    try:
        find = broker.partition
        if request.replica_id == _DEBUGGING_CONSUMER:
            find = broker.index.find_replica
        partition = find(topic, asked.partition_index, asked.current_leader_epoch)
        found = _find(partition, asked.timestamp, _end(partition, request))
        if _may_be_more(partition, asked.timestamp, found, request):
            return _refused(
                asked,
                ErrorCode.OFFSET_NOT_AVAILABLE
                if version >= _OFFSET_NOT_AVAILABLE_FIRST
                else ErrorCode.LEADER_NOT_AVAILABLE,
            )
    except (PartitionError, LogError) as error:
        return _refused(asked, ErrorCode(error.error_code))
    return list_offsets.PartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _end(partition: Partition, request: list_offsets.Request) -> int:
    """The end of what the reader can see."""
    if request.replica_id != _CONSUMER:
        return partition.log.log_end_offset
    if request.isolation_level == _READ_COMMITTED:
        return partition.log.last_stable_offset
    return partition.log.high_watermark


def _may_be_more(
    partition: Partition, timestamp: int, found: TimestampOffset, request: list_offsets.Request
) -> bool:
    """Whether the previous leader may have given a reader a larger offset."""
    leader = partition.leader
    return (
        leader is not None
        and not partition.is_alone
        and not leader.is_high_watermark_known
        and request.replica_id == _CONSUMER
        and (timestamp == _LATEST or (found == _NOTHING and timestamp not in _FOUND_NOWHERE))
    )


def _find(partition: Partition, timestamp: int, end: int) -> TimestampOffset:
    log = partition.log
    match timestamp:
        case -1:  # latest
            return TimestampOffset(NO_TIMESTAMP, end, partition.leader_epoch)
        case -2 | -4:  # earliest, earliest local
            return _earliest(partition)
        case -5 | -6:  # latest tiered, earliest pending upload
            return _NOTHING
        case -3:  # max timestamp
            found = log.max_timestamp()
        case _:
            found = log.offset_for_timestamp(timestamp)
    return found if found is not None and found.offset < end else _NOTHING


def _earliest(partition: Partition) -> TimestampOffset:
    start = partition.log.log_start_offset
    epochs = partition.log.leader_epochs
    # A log without records has no epochs; its first record will have the current one.
    epoch = epochs.epoch_for(start) if epochs.entries else partition.leader_epoch
    return TimestampOffset(NO_TIMESTAMP, start, epoch)


def _refused(asked: list_offsets.Partition, code: ErrorCode) -> list_offsets.PartitionResponse:
    return list_offsets.PartitionResponse(partition_index=asked.partition_index, error_code=code)
