"""DeleteRecords 0-2: delete the records before an offset (KIP-107).

-1 means the high watermark. An offset above it, or below 0, is OFFSET_OUT_OF_RANGE; one that is
already deleted changes nothing. A partition that is only compacted is POLICY_VIOLATION, an internal
topic INVALID_TOPIC_EXCEPTION. The answer is the low watermark, the smallest log start offset of the
live replicas; it is sent when all of them have deleted, or as REQUEST_TIMED_OUT. The leader's log
start offset is checkpointed first, so that a crash does not bring the records back. Segments below
it are deleted by retention.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from ...metadata.topics import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...protocol.messages import delete_records
from ...storage.errors import LogError
from ..replicas.partition import Partition, PartitionError
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

logger = logging.getLogger(__name__)

_HIGH_WATERMARK = -1
_UNKNOWN_LOW_WATERMARK = -1


async def handle(
    broker: Broker, context: RequestContext, request: delete_records.Request
) -> delete_records.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    topics = [
        delete_records.TopicResult(
            name=topic.name,
            partitions=await pace.every(
                _delete(broker, topic.name, asked) for asked in topic.partitions
            ),
        )
        async for topic in pace.each(request.topics)
    ]
    deleted = [
        one
        async for topic in pace.each(topics)
        async for one in pace.each(topic.partitions)
        if one.error_code == ErrorCode.NONE
    ]
    await _wait_for_replicas(broker, topics, request.timeout_ms / 1000, pace)
    if deleted:
        try:
            await broker.checkpointer.write()
        except OSError as error:
            logger.error("a crash may undo the deletion of records: %s", error)
            for one in deleted:
                one.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                one.low_watermark = _UNKNOWN_LOW_WATERMARK
    return delete_records.Response(topics=topics)


class _Deleted:
    """Wakes the request when all live replicas of a partition have deleted the records."""

    __slots__ = ("error_code", "event")

    def __init__(self) -> None:
        self.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.event = trio.Event()

    def settle(self, error_code: ErrorCode) -> None:
        self.error_code = error_code
        self.event.set()


async def _wait_for_replicas(
    broker: Broker, topics: list[delete_records.TopicResult], seconds: float, pace: Pace
) -> None:
    waiting: list[tuple[Partition, _Deleted, delete_records.PartitionResult]] = []
    async for topic in pace.each(topics):
        async for one in pace.each(topic.partitions):
            partition = broker.partitions.get((topic.name, one.partition_index))
            if one.error_code != ErrorCode.NONE or partition is None:
                continue
            if partition.low_watermark() < one.low_watermark:
                deleted = _Deleted()
                partition.deletions.add(deleted, one.low_watermark)
                waiting.append((partition, deleted, one))
    if not waiting:
        return
    try:
        with trio.move_on_after(max(0.0, seconds)):
            for _, deleted, _ in waiting:
                await deleted.event.wait()
    finally:
        for partition, deleted, one in waiting:
            partition.deletions.forget(deleted)
            one.error_code = deleted.error_code
            one.low_watermark = partition.low_watermark()


def _delete(
    broker: Broker, topic: str, asked: delete_records.Partition
) -> delete_records.PartitionResult:
    try:
        low_watermark = _advance(broker, topic, asked)
    except (PartitionError, LogError) as error:
        return delete_records.PartitionResult(
            partition_index=asked.partition_index,
            low_watermark=_UNKNOWN_LOW_WATERMARK,
            error_code=error.error_code,
        )
    return delete_records.PartitionResult(
        partition_index=asked.partition_index,
        low_watermark=low_watermark,
        error_code=ErrorCode.NONE,
    )


def _advance(broker: Broker, topic: str, asked: delete_records.Partition) -> int:
    partition = broker.partition(topic, asked.partition_index)
    if topic in INTERNAL_TOPICS:
        raise PartitionError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = partition.log
    if log.config.cleanup_compact and not log.config.cleanup_delete:
        raise PartitionError(ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if asked.offset == _HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= log.high_watermark:
        raise PartitionError(ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.delete_records(offset)
    return log.log_start_offset
