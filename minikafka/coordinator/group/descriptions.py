"""How groups are shown to administrators: DescribeGroups and ListGroups.

API 15 (DescribeGroups), versions 0 to 6: instance ids v4+; an unknown group is an error v6+
(KIP-1043) and "Dead" before, and so is a group of another type.
API 16 (ListGroups), versions 0 to 5: states v4+ (KIP-518), types v5+ (KIP-848).
API 69 (ConsumerGroupDescribe), versions 0 and 1: see `consumer.responses`.
"""

from __future__ import annotations

from collections.abc import Collection

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_describe, describe_groups
from minikafka.protocol.messages import list_groups as list_groups_api

from .classic.classic_group import ClassicGroup
from .classic.states import GroupState
from .consumer.consumer_group import ConsumerGroup
from .consumer.responses import described, not_described
from .context import ShardContext

# First version in which a group that does not exist is an error.
_GROUP_NOT_FOUND_VERSION = 6


def describe_group(
    context: ShardContext, group_id: str, api_version: int
) -> describe_groups.DescribedGroup:
    """A classic group; metadata and assignments of its members only while it is Stable."""
    error = context.phase.value
    found = context.groups.get(group_id)
    group = found if isinstance(found, ClassicGroup) else None
    if error is not ErrorCode.NONE:
        return _without_members(group_id, "", error)
    if group is None and api_version >= _GROUP_NOT_FOUND_VERSION:
        dead = _without_members(group_id, GroupState.DEAD.value, ErrorCode.GROUP_ID_NOT_FOUND)
        dead.error_message = (
            f"Group {group_id} not found."
            if found is None
            else f"Group {group_id} is not a classic group."
        )
        return dead
    if group is None:
        return _without_members(group_id, GroupState.DEAD.value, ErrorCode.NONE)
    is_stable = group.is_in(GroupState.STABLE)
    described = _without_members(group_id, group.state.value, ErrorCode.NONE)
    described.protocol_type = group.protocol_type or ""
    described.protocol_data = (group.protocol_name or "") if is_stable else ""
    described.members = [
        describe_groups.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata_for(group.protocol_name) if is_stable else b"",
            member_assignment=member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    ]
    return described


def describe_consumer_group(
    context: ShardContext, group_id: str
) -> consumer_group_describe.DescribedGroup:
    error = context.phase.value
    if error is not ErrorCode.NONE:
        return not_described(group_id, error)
    group = context.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        what = "not found" if group is None else "is not a consumer group"
        message = f"Group {group_id} {what}."
        return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)
    return described(group, context.topics, context.config.consumer_assignors[0])


def list_groups(
    context: ShardContext, states: Collection[str], types: Collection[str]
) -> list[list_groups_api.ListedGroup]:
    """The groups in one of these states and of one of these types; an empty filter matches all."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {type_.lower() for type_ in types}
    return [
        list_groups_api.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type_name,
            group_state=group.state_name,
            group_type=group.TYPE.value,
        )
        for group in context.groups.values()
        if (not wanted_states or group.state_name.lower() in wanted_states)
        and (not wanted_types or group.TYPE.value in wanted_types)
    ]


def _without_members(group_id: str, state: str, error: ErrorCode) -> describe_groups.DescribedGroup:
    return describe_groups.DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )
