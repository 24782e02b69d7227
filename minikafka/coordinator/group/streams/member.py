"""One member of a streams group, and how it gets from one assignment to the next.

A member is one thread of an instance (a *process*) of the application. Only the member knows when
it has stopped working on a task, and only the broker knows who should have it next. So each member
moves to a new target assignment in its own time, with its heartbeats::

    state             what it means                         what leaves it
    STABLE            it has all of its target              the target changes
    UNREVOKED_TASKS   it was told to give up tasks and      a heartbeat without them; or the
                      stays in its epoch until then         rebalance timeout, which fences it
    UNRELEASED_TASKS  it is in the target's epoch, but      the other members give them up
                      others still have some of its tasks

    a heartbeat arrives and the target is newer, or the state is not STABLE::

        has tasks to give up, and still owns one        -> UNREVOKED_TASKS, its epoch
        some of the target is not free for the member   -> UNRELEASED_TASKS, target's epoch
        otherwise                                       -> STABLE, target's epoch

A task is free for a member as an active task if no other member has it as an active task, and as
any task if no other thread of the member's process has it in any role: they share a directory with
the state. Whatever somebody has still to give up is not free. So no task is processed by two
members at once, and no state directory is used twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType

from ....data_class import DataClass, replace
from .records import (
    CurrentValue,
    Endpoint,
    KeyValue,
    MemberValue,
    assignment_epochs,
    from_structs,
    to_current_structs,
)
from .tasks import NOTHING, Assignment, Role, TaskId

JOINS = 0
LEAVES = -1
LEAVES_FOR_NOW = -2
"""The member epochs of requests that join, leave, and leave as a static member that comes back."""

NO_EPOCHS: Mapping[TaskId, int] = MappingProxyType({})


class MemberState(IntEnum):
    """See above; the numbers are those of Kafka's records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127
    """Written by a later version: the member has to give up everything and join again."""


class Identity(DataClass):
    """Who a member is, and which topology it runs.

    Attributes:
        process_id: the instance of the application that it is a thread of.
        endpoint: host and port at which the instance answers interactive queries.
        tags: client tags, in order.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    tags: tuple[tuple[str, str], ...] = ()


class StreamsMember(DataClass):
    """One member; never changed in place, so that decisions can be made on a copy of the group.

    Attributes:
        epoch: the epoch of the assignment that it has or moves to; -2 while a static one is away.
        previous_epoch: accepted once more, in case the answer with ``epoch`` was lost.
        assigned: the tasks that it may have.
        revoking: tasks that it had and has not given up yet.
        since: the epoch in which it got each of its active tasks: offsets that it commits under
            that epoch or a later one are its own.
    """

    member_id: str
    identity: Identity = Identity()
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING
    since: Mapping[TaskId, int] = NO_EPOCHS

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def moved(
        self, state: MemberState, epoch: int, assigned: Assignment, revoking: Assignment = NOTHING
    ) -> StreamsMember:
        """The member after a step."""
        return replace(
            self,
            state=state,
            epoch=epoch,
            previous_epoch=self.epoch,
            assigned=assigned,
            revoking=revoking,
            since={task: self.since.get(task, epoch) for task in assigned.active | revoking.active},
        )


def reconcile(
    member: StreamsMember,
    target_epoch: int,
    target: Assignment,
    *,
    is_free: Callable[[Role, TaskId], bool],
    owned: Assignment | None,
) -> StreamsMember | None:
    """The member after one step towards its target.

    Args:
        member: the member.
        target_epoch: the epoch of the target assignment.
        target: the member's part of it.
        is_free: whether others leave a task to this member in a role.
        owned: what the member says it owns; None if its request does not say.

    Returns:
        None if the member is in an unknown state and has to be fenced.
    """
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_TASKS:
        if _still_owns(member.revoking, owned):
            return member
        epoch = min(epoch + 1, target_epoch)  # fences what it committed before it gave them up
    elif member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            return None
        epoch = target_epoch
    elif member.is_reconciled_to(target_epoch):
        return member
    kept = member.assigned.common(target)
    revoking = member.assigned.without(kept)
    wanted = target.without(kept)
    free = wanted.only(is_free)
    if revoking and _still_owns(revoking, owned):
        return member.moved(MemberState.UNREVOKED_TASKS, epoch, kept, revoking)
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_TASKS
    return member.moved(state, target_epoch, kept.union(free))


def _still_owns(revoking: Assignment, owned: Assignment | None) -> bool:
    return owned is None or bool(revoking.common(owned))


# --- stored form -----------------------------------------------------------------------------


def identity_value(identity: Identity) -> MemberValue:
    return MemberValue(
        instance_id=identity.instance_id,
        rack_id=identity.rack_id,
        client_id=identity.client_id,
        client_host=identity.client_host,
        rebalance_timeout_ms=identity.rebalance_timeout_ms,
        topology_epoch=identity.topology_epoch,
        process_id=identity.process_id,
        user_endpoint=None
        if identity.endpoint is None
        else Endpoint(host=identity.endpoint[0], port=identity.endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in identity.tags],
    )


def stored_identity(value: MemberValue) -> Identity:
    endpoint = value.user_endpoint
    return Identity(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        tags=tuple(sorted((one.key, one.value) for one in value.client_tags)),
    )


def current_value(member: StreamsMember) -> CurrentValue:
    assigned, revoking = member.assigned, member.revoking
    return CurrentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=to_current_structs(assigned.active, member.since),
        standby_tasks=to_current_structs(assigned.standby),
        warmup_tasks=to_current_structs(assigned.warmup),
        active_tasks_pending_revocation=to_current_structs(revoking.active, member.since),
        standby_tasks_pending_revocation=to_current_structs(revoking.standby),
        warmup_tasks_pending_revocation=to_current_structs(revoking.warmup),
    )


def with_current(member: StreamsMember, value: CurrentValue | None) -> StreamsMember:
    """The member with what a record says that it has; without one it has nothing."""
    if value is None:
        return StreamsMember(member.member_id, member.identity)
    is_known = value.state in (1, 2, 3)
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if is_known else MemberState.UNKNOWN,
        assigned=Assignment(
            from_structs(value.active_tasks),
            from_structs(value.standby_tasks),
            from_structs(value.warmup_tasks),
        ),
        revoking=Assignment(
            from_structs(value.active_tasks_pending_revocation),
            from_structs(value.standby_tasks_pending_revocation),
            from_structs(value.warmup_tasks_pending_revocation),
        ),
        since={
            **assignment_epochs(value.active_tasks),
            **assignment_epochs(value.active_tasks_pending_revocation),
        },
    )
