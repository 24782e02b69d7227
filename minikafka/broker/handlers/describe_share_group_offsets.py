"""DescribeShareGroupOffsets 0-1: where share-partitions start, and how far they lag (KIP-932).

The lag (version 1, KIP-1226) is how many offsets nobody has finished yet. Leaders of the partitions
are asked for their ends; the lag is -1 without a leader, or if it does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...coordinator.share.commands import ShareStateReply, Summarize
from ...coordinator.share.records import SharePartitionKey
from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_share_group_offsets
from ..rpc.operations import PartitionEnds, PartitionPlace
from ..system.pace import Pace
from .share_group_state import share_state_of

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_UNKNOWN = -1


async def handle(
    broker: Broker, context: RequestContext, request: describe_share_group_offsets.Request
) -> describe_share_group_offsets.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    groups = [await _describe(broker, group) async for group in pace.each(request.groups)]
    return describe_share_group_offsets.Response(groups=groups)


async def _describe(
    broker: Broker, asked: describe_share_group_offsets.RequestGroup
) -> describe_share_group_offsets.ResponseGroup:
    state = share_state_of(broker, asked.group_id)
    answer = describe_share_group_offsets.ResponseGroup(
        group_id=asked.group_id,
        error_code=state.error_code,
        error_message=None if state.error_code is ErrorCode.NONE else state.error_code.name,
    )
    if state.error_code is not ErrorCode.NONE:
        return answer
    ids = {name: (topic_id, indexes) for topic_id, (name, indexes) in state.topics.items()}
    wanted: Mapping[str, list[int]] = (
        {name: sorted(indexes) for name, (_, indexes) in ids.items()}
        if asked.topics is None
        else {topic.topic_name: topic.partitions for topic in asked.topics}
    )
    pace = Pace(broker.clock.monotonic)
    summaries: dict[PartitionPlace, ShareStateReply] = {}
    async for name, numbers in pace.each(wanted.items()):
        topic_id, indexes = ids.get(name, (bytes(16), frozenset[int]()))
        image = broker.image.topics.get(name)
        topic = describe_share_group_offsets.ResponseTopic(
            topic_name=name,
            topic_id=topic_id if name in ids or image is None else image.topic_id,
            partitions=[],
        )
        async for number in pace.each(numbers):
            summary = ShareStateReply(ErrorCode.NONE)
            if number in indexes:
                key = SharePartitionKey(asked.group_id, topic_id, number)
                summary = await broker.share_state.ask(Summarize(key))
                if summary.start_offset >= 0 and summary.delivery_complete_count >= 0:
                    summaries[PartitionPlace(topic_id, number)] = summary
            topic.partitions.append(_partition(number, summary))
        answer.topics.append(topic)
    ends = await broker.partition_ends.find(summaries)
    async for topic in pace.each(answer.topics):
        for one in topic.partitions:
            place = PartitionPlace(topic.topic_id, one.partition_index)
            if place in ends:
                one.lag = _lag(ends[place], summaries[place])
    return answer


def _partition(
    number: int, summary: ShareStateReply
) -> describe_share_group_offsets.ResponsePartition:
    return describe_share_group_offsets.ResponsePartition(
        partition_index=number,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=_UNKNOWN,
        error_code=summary.error_code,
    )


def _lag(ends: PartitionEnds, summary: ShareStateReply) -> int:
    start = max(summary.start_offset, ends.log_start_offset)
    return max(0, ends.high_watermark - start - summary.delivery_complete_count)
