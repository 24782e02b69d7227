"""OffsetFetch 1-10: committed offsets; several groups from v8 (KIP-709), topic ids in v10.

A partition without a committed offset has -1, which is not an error. With ``require_stable``
(``read_committed`` consumers) a coordinator answers only while it is certain that it has not been
replaced; in Kafka one that was cut off answers with outdated offsets. While it is not certain, the
answer is COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.group import single_group_response
from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import offset_fetch
from ..replicas.partition import PartitionError

if TYPE_CHECKING:
    from ...coordinator.group import GroupShard
    from ..broker import Broker
    from ..control.request_context import RequestContext

_MANY_GROUPS_FIRST = 8
_TOPIC_IDS_FIRST = 10


async def handle(
    broker: Broker, context: RequestContext, request: offset_fetch.Request
) -> offset_fetch.Response:
    version = context.api_version
    if version >= _MANY_GROUPS_FIRST:
        groups = [
            _fetch_group(broker, group, request.require_stable, version) for group in request.groups
        ]
        return offset_fetch.Response(groups=groups)
    topics = None
    if request.topics is not None:
        topics = {topic.name: topic.partition_indexes for topic in request.topics}
    try:
        shard = _shard(broker, request.group_id, request.require_stable)
        found = shard.offset_fetch(request.group_id, topics, require_stable=request.require_stable)
    except PartitionError as error:
        found = offset_fetch.ResponseGroup(
            group_id=request.group_id,
            topics=[
                offset_fetch.ResponseGroupTopic(
                    name=name,
                    partitions=[_no_offset(number, error.error_code) for number in numbers],
                )
                for name, numbers in (topics or {}).items()
            ],
            error_code=error.error_code,
        )
    return single_group_response(found)


def _shard(broker: Broker, group_id: str, require_stable: bool) -> GroupShard:
    groups = broker.groups
    return groups.surely_current_shard(group_id) if require_stable else groups.shard(group_id)


def _fetch_group(
    broker: Broker, group: offset_fetch.RequestGroup, require_stable: bool, version: int
) -> offset_fetch.ResponseGroup:
    by_id = version >= _TOPIC_IDS_FIRST
    unknown: list[offset_fetch.ResponseGroupTopic] = []
    wanted: dict[str, list[int]] | None = None
    if group.topics is not None:
        wanted = {}
        for topic in group.topics:
            try:
                name = broker.index.topic_name(topic.name, topic.topic_id, by_id)
            except PartitionError as error:
                unknown.append(
                    offset_fetch.ResponseGroupTopic(
                        topic_id=topic.topic_id,
                        partitions=[
                            _no_offset(number, error.error_code)
                            for number in topic.partition_indexes
                        ],
                    )
                )
                continue
            wanted.setdefault(name, []).extend(topic.partition_indexes)
    try:
        found = _shard(broker, group.group_id, require_stable).offset_fetch(
            group.group_id,
            wanted,
            require_stable=require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
    except PartitionError as error:
        return offset_fetch.ResponseGroup(
            group_id=group.group_id, topics=[], error_code=error.error_code
        )
    if by_id:
        for answered in found.topics:
            image = broker.image.topics.get(answered.name)
            answered.topic_id = image.topic_id if image is not None else ZERO_UUID
        found.topics = [topic for topic in found.topics if topic.topic_id != ZERO_UUID]
    found.topics = [*found.topics, *unknown]
    return found


def _no_offset(number: int, code: ErrorCode) -> offset_fetch.GroupPartition:
    return offset_fetch.GroupPartition(
        partition_index=number, committed_offset=-1, metadata="", error_code=code
    )
