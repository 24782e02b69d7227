"""OffsetCommit 2-10: commit a group's offsets; topics by id in v10 (KIP-848).

Offsets of partitions that do not exist get an error each; the rest go to the group's shard, which
answers when they are committed to ``__consumer_offsets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import trio

from ...protocol.errors import ErrorCode
from ...protocol.messages import offset_commit
from ..replicas.partition import PartitionError
from ..system.pace import PIECE_ENTRIES, Pace

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
    pace = Pace(broker.clock.monotonic)
    async for topic in pace.each(request.topics):
        try:
            topic.name = broker.index.topic_name(topic.name, topic.topic_id, by_id)
        except PartitionError as error:
            refused.append(await _refuse(topic, topic.partitions, error.error_code, pace))
            continue
        image = broker.image.topics.get(topic.name)
        count = len(image.partitions) if image is not None else 0
        inside: list[offset_commit.RequestPartition] = []
        outside: list[offset_commit.RequestPartition] = []
        async for one in pace.each(topic.partitions):
            (inside if 0 <= one.partition_index < count else outside).append(one)
        if outside:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(await _refuse(topic, outside, code, pace))
            topic.partitions = inside
        if inside and image is not None:
            topic.topic_id = image.topic_id  # which is stored, whether the client knows it or not
            known.append(topic)
    if refused and not known:
        return offset_commit.Response(topics=refused)
    answers: list[offset_commit.ResponseTopic] = []
    answer = offset_commit.Response(topics=[])
    pieces = await _pieces(known, pace)
    for piece in pieces:
        request.topics = piece
        answer = cast(
            "offset_commit.Response", await broker.groups.ask(request.group_id, request, context)
        )
        answers += answer.topics
        if len(pieces) > 1:
            await trio.lowlevel.checkpoint()  # a refusal does not wait for anything
    topic_ids = {topic.name: topic.topic_id async for topic in pace.each(known)}
    async for answered in pace.each(answers):
        answered.topic_id = topic_ids.get(answered.name, answered.topic_id)
    answer.topics = await _merge(answers + refused, pace)
    return answer


async def _pieces(
    topics: list[offset_commit.RequestTopic], pace: Pace
) -> list[list[offset_commit.RequestTopic]]:
    """Topics with at most so many partitions together as one turn, and one batch, may have."""
    pieces: list[list[offset_commit.RequestTopic]] = [[]]
    size = 0
    async for topic in pace.each(topics):
        partitions = topic.partitions
        for start in range(0, len(partitions), PIECE_ENTRIES):
            part = partitions[start : start + PIECE_ENTRIES]
            if pieces[-1] and size + len(part) > PIECE_ENTRIES:
                pieces.append([])
                size = 0
            pieces[-1].append(
                offset_commit.RequestTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=part
                )
            )
            size += len(part)
    return pieces


async def _refuse(
    topic: offset_commit.RequestTopic,
    partitions: list[offset_commit.RequestPartition],
    code: ErrorCode,
    pace: Pace,
) -> offset_commit.ResponseTopic:
    return offset_commit.ResponseTopic(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            offset_commit.ResponsePartition(partition_index=one.partition_index, error_code=code)
            async for one in pace.each(partitions)
        ],
    )


async def _merge(
    topics: list[offset_commit.ResponseTopic], pace: Pace
) -> list[offset_commit.ResponseTopic]:
    """One entry for each topic, with the refused and the other partitions."""
    merged: dict[tuple[str, bytes], offset_commit.ResponseTopic] = {}
    async for topic in pace.each(topics):
        present = merged.setdefault((topic.name, topic.topic_id), topic)
        if present is not topic:
            present.partitions += topic.partitions
    return list(merged.values())
