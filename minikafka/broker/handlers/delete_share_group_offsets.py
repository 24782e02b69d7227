"""DeleteShareGroupOffsets 0: forget what an empty share group has read of topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import delete_share_group_offsets
from ..system.pace import paced
from .share_group_state import delete_state, share_state_of, why_not_changeable

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: delete_share_group_offsets.Request
) -> delete_share_group_offsets.Response:
    del context
    state = share_state_of(broker, request.group_id)
    code, message = why_not_changeable(state)
    if code is not ErrorCode.NONE:
        return delete_share_group_offsets.Response(error_code=code, error_message=message)
    ids = {name: (topic_id, indexes) for topic_id, (name, indexes) in state.topics.items()}
    topics: list[delete_share_group_offsets.ResponseTopic] = []
    deleted: list[bytes] = []
    async for topic in paced(request.topics, broker.clock.monotonic):
        topic_id, indexes = ids.get(topic.topic_name, (ZERO_UUID, frozenset[int]()))
        outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.topic_name in ids:
            outcome = await delete_state(broker, request.group_id, topic_id, indexes)
        if outcome is ErrorCode.NONE:
            deleted.append(topic_id)
        topics.append(
            delete_share_group_offsets.ResponseTopic(
                topic_name=topic.topic_name, topic_id=topic_id, error_code=outcome
            )
        )
    broker.groups.report_share_state_deleted(request.group_id, deleted)
    return delete_share_group_offsets.Response(responses=topics)
