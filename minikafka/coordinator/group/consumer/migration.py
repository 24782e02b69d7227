"""Groups that turn from classic to consumer groups and back while they have members (KIP-848).

A classic group is upgraded when the first member joins it that speaks the consumer protocol: every
member keeps what it was assigned last, the generation becomes the epoch, and the members are told
to rebalance, which from then on is the broker's business. A consumer group is downgraded when the
last member that speaks the consumer protocol leaves: the others form a classic group, and rebalance
among themselves.
"""

from __future__ import annotations

from minikafka.protocol.exceptions import MalformedMessageError

from ..classic.classic_group import ClassicGroup, Member
from ..classic.records import GroupEntry
from ..classic.subscription import CONSUMER_PROTOCOL_TYPE
from ..records import Entry
from ..topics import Topics
from .consumer_group import ConsumerGroup
from .draft import Draft, hash_of_topics
from .embedded import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of_subscription,
)
from .member import ClassicSupport, ConsumerMember, MemberState, Subscription, current_value
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    GroupValue,
    TargetEntry,
    TargetEpochEntry,
    TargetMemberValue,
    TargetValue,
    to_structs,
)


class CannotUpgradeError(Exception):
    """A member's subscription or assignment cannot be read."""


def upgraded(group: ClassicGroup, topics: Topics) -> Draft:
    """A classic group as a consumer group, with the records that make it one.

    Raises:
        CannotUpgradeError: what a member has sent cannot be read.
    """
    draft = Draft(ConsumerGroup(group.group_id))
    try:
        members = [_upgraded_member(group, member, topics) for member in group.members.values()]
    except MalformedMessageError as error:
        raise CannotUpgradeError(str(error)) from error
    for member in members:
        draft.subscribe(member.member_id, member.subscription)
    metadata_hash = hash_of_topics(draft.group.subscribed_topics, topics)
    value = GroupValue(epoch=group.generation, metadata_hash=metadata_hash)
    draft.add(GroupEpochEntry(group.group_id, value))
    for member in members:
        target = TargetMemberValue(topic_partitions=to_structs(member.assigned))
        draft.add(TargetEntry(group.group_id, member.member_id, target))
    draft.add(TargetEpochEntry(group.group_id, TargetValue(assignment_epoch=group.generation)))
    for member in members:
        draft.add(CurrentEntry(group.group_id, member.member_id, current_value(member)))
    draft.entries[:0] = group.tombstones()
    return draft


def _upgraded_member(group: ClassicGroup, member: Member, topics: Topics) -> ConsumerMember:
    metadata = member.metadata_for(group.protocol_name) or member.protocols[0][1]
    subscribed = decode_subscription(metadata)
    subscription = Subscription(
        instance_id=member.group_instance_id,
        rack_id=subscribed.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscribed.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicSupport(member.session_timeout_ms, member.protocols),
    )
    return ConsumerMember(
        member.member_id,
        subscription,
        group.generation,
        group.generation,
        MemberState.STABLE,
        decode_assignment(member.assignment, topics),
    )


def downgraded(
    group: ConsumerGroup, leaving_id: str, topics: Topics, now_ms: int
) -> list[Entry] | None:
    """The records that make a classic group of all members but one.

    Returns:
        None if what a member has sent cannot be read.
    """
    classic = ClassicGroup(group.group_id)
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    classic.generation = group.epoch
    for member in group.members.values():
        support = member.subscription.classic
        if member.member_id != leaving_id and support is not None:
            classic.add(_downgraded_member(member, support))
    classic.protocol_name = classic.select_protocol()

    def assignment_of(member: Member) -> bytes:
        version = version_of_subscription(member.metadata_for(classic.protocol_name))
        return encode_assignment(group.target(member.member_id), topics, version)

    try:
        value = classic.to_store(now_ms, assignment_of)
    except MalformedMessageError:
        return None
    return [*group.tombstones(), GroupEntry(group.group_id, value)]


def _downgraded_member(member: ConsumerMember, support: ClassicSupport) -> Member:
    subscription = member.subscription
    return Member(
        member_id=member.member_id,
        group_instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        session_timeout_ms=support.session_timeout_ms,
        protocols=support.protocols,
    )
