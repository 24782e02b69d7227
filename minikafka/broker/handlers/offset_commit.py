"""OffsetCommit 2-10: store a group's offsets; topics by id in v10 (KIP-848).

Offsets of topics that do not exist are refused one by one; the rest go to the group's shard, and
the answer comes when they are in ``__consumer_offsets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_TOPIC_IDS_FIRST = 10


async def handle(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Sort out unknown topics, ask the group's shard about the others."""
    by_id = context.api_version >= _TOPIC_IDS_FIRST
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    asked = request.topics
    for topic in asked:
        try:
            topic.name = broker.topic_name(topic.name, topic.topic_id, by_id)
        except PartitionError as error:
            refused.append(_refuse(topic, topic.partitions, error.error_code))
            continue
        image = broker.image.topics.get(topic.name)
        count = len(image.partitions) if image is not None else 0
        inside = [one for one in topic.partitions if 0 <= one.partition_index < count]
        if len(inside) < len(topic.partitions):
            outside = [one for one in topic.partitions if not 0 <= one.partition_index < count]
            refused.append(_refuse(topic, outside, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = inside
        if inside:
            known.append(topic)
    request.topics = known
    if refused and not known:
        return OffsetCommitResponse(topics=refused)
    try:
        answer = cast(
            "OffsetCommitResponse", await broker.groups.ask(request.group_id, request, context)
        )
    except PartitionError as error:
        answer = OffsetCommitResponse(
            topics=[_refuse(topic, topic.partitions, error.error_code) for topic in known]
        )
    topic_ids = {topic.name: topic.topic_id for topic in known}
    for answered in answer.topics:
        answered.topic_id = topic_ids.get(answered.name, answered.topic_id)
    answer.topics = _merge(answer.topics + refused)
    return answer


def _refuse(
    topic: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    code: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in partitions
        ],
    )


def _merge(topics: list[OffsetCommitResponseTopic]) -> list[OffsetCommitResponseTopic]:
    """One entry for each topic, though some of its partitions were refused and others not."""
    merged: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    for topic in topics:
        present = merged.setdefault((topic.name, topic.topic_id), topic)
        if present is not topic:
            present.partitions += topic.partitions
    return list(merged.values())
