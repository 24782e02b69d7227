"""DescribeTopicPartitions 0: topics page by page (KIP-966).

Topics are sorted by name; an empty list means all topics. An answer has at most
``response_partition_limit`` partitions, and never more than ``max.request.partition.size.limit``;
``next_cursor`` is the first partition that did not fit, or null. A cursor's topic must be among the
requested names, if there are any. Eligible leader replicas are those of KIP-966.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ...metadata.image import TopicImage
from ...metadata.records import NO_LEADER, PartitionRecord
from ...metadata.topics import INTERNAL_TOPICS, topic_name_problem
from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import describe_topic_partitions
from ..system.pace import Pace
from .authorization import NOT_ASKED, TOPIC_OPERATIONS
from .cluster_view import ClusterView

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_SORTED_AT_ONCE = 10_000


async def handle(
    broker: Broker, context: RequestContext, request: describe_topic_partitions.Request
) -> describe_topic_partitions.Response:
    pace = Pace(broker.clock.monotonic)
    asked = {topic.name async for topic in pace.each(request.topics)}
    names = await _sorted(list(asked or broker.image.topics), pace)
    first_partition = 0
    if request.cursor is not None:
        start = request.cursor.topic_name
        if request.cursor.partition_index < 0 or (asked and start not in asked):
            return await _invalid(names, pace)
        names = [name async for name in pace.each(names) if name >= start]
        if names and names[0] == start:
            first_partition = request.cursor.partition_index
    limit = min(request.response_partition_limit, broker.config.max_request_partition_size_limit)
    return await _page(broker, context, names, first_partition, max(1, limit), pace)


async def _sorted(names: list[str], pace: Pace) -> list[str]:
    pieces = [
        sorted(names[start : start + _SORTED_AT_ONCE])
        async for start in pace.each(range(0, len(names), _SORTED_AT_ONCE))
    ]
    return pieces[0] if len(pieces) == 1 else await pace.every(heapq.merge(*pieces))


async def _page(
    broker: Broker,
    context: RequestContext,
    names: list[str],
    first_partition: int,
    limit: int,
    pace: Pace,
) -> describe_topic_partitions.Response:
    response = describe_topic_partitions.Response(topics=[])
    view = ClusterView(broker, context.listener_name)
    async for name in pace.each(names):
        if limit == 0:
            response.next_cursor = describe_topic_partitions.CursorResponse(
                topic_name=name, partition_index=0
            )
            break
        topic = broker.image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            first_partition = 0
            continue
        end = first_partition + limit
        shown = topic.partitions[first_partition:end]
        response.topics.append(_describe(view, topic, shown))
        if end < len(topic.partitions):
            response.next_cursor = describe_topic_partitions.CursorResponse(
                topic_name=name, partition_index=end
            )
            break
        limit -= len(shown)
        first_partition = 0
    return response


def _describe(
    view: ClusterView, topic: TopicImage, partitions: list[PartitionRecord]
) -> describe_topic_partitions.Topic:
    return describe_topic_partitions.Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(view, topic.name, one) for one in partitions],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    view: ClusterView, topic: str, image: PartitionRecord
) -> describe_topic_partitions.Partition:
    leader, offline_replicas, _ = view.partition(topic, image)
    return describe_topic_partitions.Partition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
        partition_index=image.partition,
        leader_id=leader,
        leader_epoch=image.leader_epoch,
        replica_nodes=list(image.replicas),
        isr_nodes=list(image.in_sync_replicas),
        eligible_leader_replicas=list(image.eligible_leader_replicas),
        last_known_elr=list(image.last_known_eligible_leaders),
        offline_replicas=offline_replicas,
    )


def _unknown(name: str) -> describe_topic_partitions.Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic_name_problem(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return describe_topic_partitions.Topic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


async def _invalid(names: list[str], pace: Pace) -> describe_topic_partitions.Response:
    return describe_topic_partitions.Response(
        topics=[
            describe_topic_partitions.Topic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=name,
                topic_id=ZERO_UUID,
                partitions=[],
                topic_authorized_operations=NOT_ASKED,
            )
            async for name in pace.each(names)
        ]
    )
