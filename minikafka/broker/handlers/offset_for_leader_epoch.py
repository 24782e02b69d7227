"""OffsetForLeaderEpoch 2-4: where the records of a leader epoch end (KIP-101, KIP-279, KIP-320).

The answer is the largest epoch at or below the one asked for and the offset where it ends; -1 and
-1 when the log knows none. The current epoch ends at the log end, also before its first record.
``current_leader_epoch`` is fenced. Only leaders answer; ``replica_id`` changes nothing, for brokers
compare their logs in another way (`minikafka.broker.replica_serving`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ...storage.errors import LogError
from ...storage.results import EpochEndOffset as StoredEpoch
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Look up each partition's epoch."""
    del context
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_find(broker, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _find(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.partition(topic, asked.partition, asked.current_leader_epoch)
        if asked.leader_epoch == partition.leader_epoch:
            found = StoredEpoch(partition.leader_epoch, partition.log.log_end_offset)
        else:
            found = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except (PartitionError, LogError) as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.error_code)
    return EpochEndOffset(
        partition=asked.partition,
        error_code=ErrorCode.NONE,
        leader_epoch=found.leader_epoch,
        end_offset=found.end_offset,
    )
