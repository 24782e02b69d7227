"""OffsetCommit 2-10: commit a group's offsets; topics by id in v10 (KIP-848).

Offsets of partitions that do not exist get an error each; the rest go to the group's shard, which
answers when they are committed to ``__consumer_offsets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages import offset_commit
from ..replicas.partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_TOPIC_IDS_FIRST = 10


async def handle(
    broker: Broker, context: RequestContext, request: offset_commit.Request
) -> offset_commit.Response:
    by_id = context.api_version >= _TOPIC_IDS_FIRST
    known: list[offset_commit.RequestTopic] = []
    refused: list[offset_commit.ResponseTopic] = []
    asked = request.topics
    for topic in asked:
        try:
            topic.name = broker.index.topic_name(topic.name, topic.topic_id, by_id)
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
        return offset_commit.Response(topics=refused)
    answer = cast(
        "offset_commit.Response", await broker.groups.ask(request.group_id, request, context)
    )
    topic_ids = {topic.name: topic.topic_id for topic in known}
    for answered in answer.topics:
        answered.topic_id = topic_ids.get(answered.name, answered.topic_id)
    answer.topics = _merge(answer.topics + refused)
    return answer


def _refuse(
    topic: offset_commit.RequestTopic,
    partitions: list[offset_commit.RequestPartition],
    code: ErrorCode,
) -> offset_commit.ResponseTopic:
    return offset_commit.ResponseTopic(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            offset_commit.ResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in partitions
        ],
    )


def _merge(topics: list[offset_commit.ResponseTopic]) -> list[offset_commit.ResponseTopic]:
    """One entry for each topic, with the refused and the other partitions."""
    merged: dict[tuple[str, bytes], offset_commit.ResponseTopic] = {}
    for topic in topics:
        present = merged.setdefault((topic.name, topic.topic_id), topic)
        if present is not topic:
            present.partitions += topic.partitions
    return list(merged.values())
