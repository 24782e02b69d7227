"""What administrators may do to the stored state of a share group, for several APIs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...coordinator.group import ShareState
from ...coordinator.share.commands import Delete
from ...coordinator.share.records import SharePartitionKey
from ...protocol.errors import ErrorCode
from ..replicas.partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker


def share_state_of(broker: Broker, group_id: str) -> ShareState:
    """What a share group has state for; the error says why that is not known."""
    try:
        return broker.groups.shard(group_id).share_state(group_id)
    except PartitionError as error:
        return ShareState(ErrorCode(error.error_code))


def why_not_changeable(state: ShareState) -> tuple[ErrorCode, str | None]:
    """Why the state of a share group cannot be changed; NONE if it can."""
    if state.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
        return state.error_code, "There is no share group with this id."
    if state.error_code is not ErrorCode.NONE:
        return state.error_code, None
    if not state.is_empty:
        return ErrorCode.NON_EMPTY_GROUP, "The group has members; stop them first."
    return ErrorCode.NONE, None


async def delete_state(
    broker: Broker, group_id: str, topic_id: bytes, indexes: Iterable[int]
) -> ErrorCode:
    """Delete what a share group has for a topic; the first error, or NONE."""
    outcome = ErrorCode.NONE
    for index in sorted(indexes):
        reply = await broker.share_state.ask(Delete(SharePartitionKey(group_id, topic_id, index)))
        if outcome is ErrorCode.NONE:
            outcome = reply.error_code
    return outcome
