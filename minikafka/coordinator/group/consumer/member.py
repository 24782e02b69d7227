"""One member of a consumer group, and how it gets from one assignment to the next.

Only the member knows when it has stopped reading a partition, and only the broker knows who should
read it next. So each member moves to a new target assignment in its own time, with its heartbeats::

    state                  what it means                        what leaves it
    STABLE                 it has all of its target             the target changes
    UNREVOKED_PARTITIONS   it was told to give up partitions    a heartbeat without them; or the
                           and stays in its epoch until then    rebalance timeout, which fences it
    UNRELEASED_PARTITIONS  it is in the target's epoch, but     the other members give them up
                           others still have some of its
                           partitions

    a heartbeat arrives and the target is newer, or the state is not STABLE::

        has partitions to give up, and still owns one  -> UNREVOKED_PARTITIONS, its epoch
        some of the target belongs to another member   -> UNRELEASED_PARTITIONS, target's epoch
        otherwise                                      -> STABLE, target's epoch

A partition has at most one member that has it or still has to give it up (`ConsumerGroup.owner`).
It goes to its next member only after that one has said in a heartbeat that it does not own it any
longer, or was removed from the group. So no partition is read by two members at once.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ....data_class import DataClass, replace
from .partitions import NOTHING, Partitions, common, only, union, without
from .records import (
    ClassicMetadata,
    ClassicProtocol,
    CurrentValue,
    MemberValue,
    from_structs,
    to_structs,
)

JOINS = 0
LEAVES = -1
LEAVES_FOR_NOW = -2
"""The member epochs of requests that join, leave, and leave as a static member that comes back."""


class MemberState(IntEnum):
    """See above; the numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Written by a later version: the member has to give up everything and join again."""


class ClassicSupport(DataClass):
    """What a member that speaks the classic protocol has sent in JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(DataClass):
    """What a member reads, and who it is."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSupport | None = None
    """None if the member speaks the consumer protocol."""


class ConsumerMember(DataClass):
    """One member; never changed in place, so that decisions can be made on a copy of the group.

    Attributes:
        epoch: the epoch of the assignment that it has or moves to; -2 while a static one is away.
        previous_epoch: accepted once more, in case the answer with ``epoch`` was lost.
        assigned: the partitions that it may read.
        revoking: partitions that it had and has not given up yet.
    """

    member_id: str
    subscription: Subscription = Subscription()
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING

    @property
    def is_classic(self) -> bool:
        return self.subscription.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def moved(
        self,
        state: MemberState,
        epoch: int,
        assigned: Partitions,
        revoking: Partitions = NOTHING,
    ) -> ConsumerMember:
        """The member after a step."""
        return replace(
            self,
            state=state,
            epoch=epoch,
            previous_epoch=self.epoch,
            assigned=assigned,
            revoking=revoking,
        )


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    *,
    is_free: Callable[[bytes, int], bool],
    owned: Partitions | None,
) -> ConsumerMember | None:
    """The member after one step towards its target.

    Args:
        member: the member, with its subscription as it is now.
        target_epoch: the epoch of the target assignment.
        target: the member's part of it.
        is_free: whether nobody has a partition, so that the member may get it.
        owned: what the member says it owns; None if its request does not say.

    Returns:
        None if the member is in an unknown state and has to be fenced.
    """
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(member.revoking, owned):
            return member
        epoch = min(epoch + 1, target_epoch)  # fences what it committed before it gave them up
    elif member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            return None
        epoch = target_epoch
    elif member.is_reconciled_to(target_epoch):
        return member
    kept = common(member.assigned, target)
    revoking = without(member.assigned, kept)
    wanted = without(target, kept)
    free = only(wanted, is_free)
    if revoking and _still_owns(revoking, owned):
        return member.moved(MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoking)
    is_waiting = free != wanted
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return member.moved(state, target_epoch, union(kept, free))


def _still_owns(revoking: Partitions, owned: Partitions | None) -> bool:
    return owned is None or bool(common(revoking, owned))


# --- stored form -----------------------------------------------------------------------------


def subscription_value(subscription: Subscription) -> MemberValue:
    classic = subscription.classic
    return MemberValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topics),
        subscribed_topic_regex=subscription.regex,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in classic.protocols
            ],
        ),
    )


def stored_subscription(value: MemberValue) -> Subscription:
    classic = value.classic_member_metadata
    return Subscription(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicSupport(
            classic.session_timeout_ms,
            tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols),
        ),
    )


def current_value(member: ConsumerMember) -> CurrentValue:
    return CurrentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=to_structs(member.assigned),
        partitions_pending_revocation=to_structs(member.revoking),
    )


def with_current(member: ConsumerMember, value: CurrentValue | None) -> ConsumerMember:
    """The member with what a record says that it has; without one it has nothing."""
    if value is None:
        return ConsumerMember(member.member_id, member.subscription)
    is_known = value.state in (0, 1, 2)
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if is_known else MemberState.UNKNOWN,
        assigned=from_structs(value.assigned_partitions),
        revoking=from_structs(value.partitions_pending_revocation),
    )
