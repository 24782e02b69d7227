"""OffsetForLeaderEpoch 2-4: the end offset of a leader epoch (KIP-101, KIP-279, KIP-320).

The answer is the largest epoch at or below the requested one and its end offset, or -1 and -1 if
the log has none. The current epoch ends at the log end offset, even before its first record.
``current_leader_epoch`` is fenced. Only leaders answer. ``replica_id`` is ignored, because brokers
compare their logs in another way (`minikafka.broker.replicas.fetch_server`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import offset_for_leader_epoch
from ...storage.errors import LogError
from ...storage.leader_epochs import EpochEndOffset as StoredEpoch
from ..replicas.partition import PartitionError
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: offset_for_leader_epoch.Request
) -> offset_for_leader_epoch.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    return offset_for_leader_epoch.Response(
        topics=[
            offset_for_leader_epoch.TopicResult(
                topic=topic.topic,
                partitions=await pace.every(
                    _find(broker, topic.topic, asked) for asked in topic.partitions
                ),
            )
            async for topic in pace.each(request.topics)
        ]
    )


def _find(
    broker: Broker, topic: str, asked: offset_for_leader_epoch.Partition
) -> offset_for_leader_epoch.EpochEndOffset:
    try:
        partition = broker.partition(topic, asked.partition, asked.current_leader_epoch)
        if asked.leader_epoch == partition.leader_epoch:
            found = StoredEpoch(partition.leader_epoch, partition.log.log_end_offset)
        else:
            found = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except (PartitionError, LogError) as error:
        return offset_for_leader_epoch.EpochEndOffset(
            partition=asked.partition, error_code=error.error_code
        )
    return offset_for_leader_epoch.EpochEndOffset(
        partition=asked.partition,
        error_code=ErrorCode.NONE,
        leader_epoch=found.leader_epoch,
        end_offset=found.end_offset,
    )
