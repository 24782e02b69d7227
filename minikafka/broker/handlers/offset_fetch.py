"""OffsetFetch 1-10: committed offsets; several groups from v8 (KIP-709), topic ids in v10.

A partition without a committed offset has -1, which is not an error. With ``require_stable``
(``read_committed`` consumers) a coordinator answers only while it is certain that it has not been
replaced; in Kafka one that was cut off answers with outdated offsets. While it is not certain, the
answer is COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.group import single_group_response
from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import offset_fetch
from ..replicas.partition import PartitionError
from ..system.pace import PIECE_ENTRIES, Pace

if TYPE_CHECKING:
    from ...coordinator.group import GroupShard
    from ..broker import Broker
    from ..control.request_context import RequestContext

_MANY_GROUPS_FIRST = 8
_TOPIC_IDS_FIRST = 10


async def handle(
    broker: Broker, context: RequestContext, request: offset_fetch.Request
) -> offset_fetch.Response:
    version, pace = context.api_version, Pace(broker.clock.monotonic)
    if version >= _MANY_GROUPS_FIRST:
        groups = [
            await _fetch_group(broker, group, request.require_stable, version, pace)
            async for group in pace.each(request.groups)
        ]
        return offset_fetch.Response(groups=groups)
    topics = None
    if request.topics is not None:
        topics = {topic.name: topic.partition_indexes async for topic in pace.each(request.topics)}
    asked = offset_fetch.RequestGroup(group_id=request.group_id, topics=None)
    try:
        found = await _read(broker, asked, topics, request.require_stable, pace)
    except PartitionError as error:
        found = offset_fetch.ResponseGroup(
            group_id=request.group_id,
            topics=[
                offset_fetch.ResponseGroupTopic(
                    name=name,
                    partitions=await pace.every(
                        _no_offset(number, error.error_code) for number in numbers
                    ),
                )
                async for name, numbers in pace.each((topics or {}).items())
            ],
            error_code=error.error_code,
        )
    if sum(len(topic.partitions) for topic in found.topics) <= PIECE_ENTRIES:
        return single_group_response(found)
    return await broker.run_in_thread(partial(_single, found))


def _single(found: offset_fetch.ResponseGroup) -> offset_fetch.Response:
    """In a thread, for many partitions, which are freed piece by piece."""
    response = single_group_response(found)
    for topic in found.topics:
        while topic.partitions:
            del topic.partitions[-PIECE_ENTRIES:]
    while found.topics:
        del found.topics[-PIECE_ENTRIES:]
    return response


def _shard(broker: Broker, group_id: str, require_stable: bool) -> GroupShard:
    groups = broker.groups
    return groups.surely_current_shard(group_id) if require_stable else groups.shard(group_id)


async def _read(
    broker: Broker,
    group: offset_fetch.RequestGroup,
    wanted: dict[str, list[int]] | None,
    require_stable: bool,
    pace: Pace,
) -> offset_fetch.ResponseGroup:
    """Ask the group's shard, for many partitions in several turns.

    Raises:
        PartitionError: this broker does not coordinate the group, or not yet.
    """
    found: offset_fetch.ResponseGroup | None = None
    for piece in await _pieces(wanted, pace):
        await pace.step()
        answer = _shard(broker, group.group_id, require_stable).offset_fetch(
            group.group_id,
            piece,
            require_stable=require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
        if found is None or answer.error_code != ErrorCode.NONE:
            found = answer
        else:
            _merge(found.topics, answer.topics)
        if answer.error_code != ErrorCode.NONE:
            break
    assert found is not None
    return found


def _merge(
    found: list[offset_fetch.ResponseGroupTopic], more: list[offset_fetch.ResponseGroupTopic]
) -> None:
    """Add topics, of which the first may be the last one that is there."""
    if found and more and found[-1].name == more[0].name:
        found[-1].partitions += more[0].partitions
        more = more[1:]
    found += more


async def _pieces(
    wanted: dict[str, list[int]] | None, pace: Pace
) -> list[dict[str, list[int]]] | list[None]:
    """The partitions, so many at a time as one turn may have."""
    if wanted is None or len(wanted) + sum(map(len, wanted.values())) <= PIECE_ENTRIES:
        return [wanted] if wanted is not None else [None]
    pieces: list[dict[str, list[int]]] = [{}]
    size = 0
    async for name, numbers in pace.each(wanted.items()):
        for start in range(0, len(numbers) or 1, PIECE_ENTRIES):
            part = numbers[start : start + PIECE_ENTRIES]
            if pieces[-1] and size + len(part) > PIECE_ENTRIES:
                pieces.append({})
                size = 0
            pieces[-1][name] = part
            size += len(part) + 1
    return pieces


async def _fetch_group(
    broker: Broker,
    group: offset_fetch.RequestGroup,
    require_stable: bool,
    version: int,
    pace: Pace,
) -> offset_fetch.ResponseGroup:
    by_id = version >= _TOPIC_IDS_FIRST
    unknown: list[offset_fetch.ResponseGroupTopic] = []
    wanted: dict[str, list[int]] | None = None
    if group.topics is not None:
        wanted = {}
        async for topic in pace.each(group.topics):
            try:
                name = broker.index.topic_name(topic.name, topic.topic_id, by_id)
            except PartitionError as error:
                unknown.append(
                    offset_fetch.ResponseGroupTopic(
                        topic_id=topic.topic_id,
                        partitions=[
                            _no_offset(number, error.error_code)
                            async for number in pace.each(topic.partition_indexes)
                        ],
                    )
                )
                continue
            wanted.setdefault(name, []).extend(topic.partition_indexes)
    try:
        found = await _read(broker, group, wanted, require_stable, pace)
    except PartitionError as error:
        return offset_fetch.ResponseGroup(
            group_id=group.group_id, topics=[], error_code=error.error_code
        )
    if by_id:
        async for answered in pace.each(found.topics):
            image = broker.image.topics.get(answered.name)
            answered.topic_id = image.topic_id if image is not None else ZERO_UUID
        found.topics = [topic for topic in found.topics if topic.topic_id != ZERO_UUID]
    found.topics = [*found.topics, *unknown]
    return found


def _no_offset(number: int, code: ErrorCode) -> offset_fetch.GroupPartition:
    return offset_fetch.GroupPartition(
        partition_index=number, committed_offset=-1, metadata="", error_code=code
    )
