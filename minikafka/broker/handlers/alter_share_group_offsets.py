"""AlterShareGroupOffsets 0: let an empty share group start elsewhere (KIP-932).

The state of a share-partition begins once more with the next state epoch, so that a leader that
has it in memory is fenced by its next write and loads it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.share.commands import Initialize, Summarize
from ...coordinator.share.records import SharePartitionKey
from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import alter_share_group_offsets
from ..system.pace import Pace
from .share_group_state import share_state_of, why_not_changeable

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: alter_share_group_offsets.Request
) -> alter_share_group_offsets.Response:
    del context
    code, message = why_not_changeable(share_state_of(broker, request.group_id))
    if code is not ErrorCode.NONE:
        return alter_share_group_offsets.Response(error_code=code, error_message=message)
    topics: list[alter_share_group_offsets.ResponseTopic] = []
    begun: dict[bytes, set[int]] = {}
    pace = Pace(broker.clock.monotonic)
    async for topic in pace.each(request.topics):
        image = broker.image.topics.get(topic.topic_name)
        topic_id = ZERO_UUID if image is None else image.topic_id
        answer = alter_share_group_offsets.ResponseTopic(
            topic_name=topic.topic_name, topic_id=topic_id, partitions=[]
        )
        async for one in pace.each(topic.partitions):
            outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if image is not None and 0 <= one.partition_index < len(image.partitions):
                key = SharePartitionKey(request.group_id, topic_id, one.partition_index)
                outcome = await _begin(broker, key, one.start_offset)
            if outcome is ErrorCode.NONE:
                begun.setdefault(topic_id, set()).add(one.partition_index)
            answer.partitions.append(
                alter_share_group_offsets.ResponsePartition(
                    partition_index=one.partition_index, error_code=outcome
                )
            )
        topics.append(answer)
    broker.groups.report_share_state(request.group_id, begun)
    return alter_share_group_offsets.Response(responses=topics)


async def _begin(broker: Broker, key: SharePartitionKey, start_offset: int) -> ErrorCode:
    before = await broker.share_state.ask(Summarize(key))
    if before.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return before.error_code
    epoch = 0 if before.error_code is not ErrorCode.NONE else before.state_epoch + 1
    return (await broker.share_state.ask(Initialize(key, epoch, start_offset))).error_code
