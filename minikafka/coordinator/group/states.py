"""The states of a classic group.

``Empty``
    No members. Offsets may be committed without a member id (a "simple" consumer); they begin to
    expire. A member that joins moves the group to PreparingRebalance, where the first join of an
    empty group waits ``group.initial.rebalance.delay.ms`` for company.
``PreparingRebalance``
    Members are asked to join again: a heartbeat is answered REBALANCE_IN_PROGRESS, JoinGroup
    waits, commits of the old generation are still taken so that members can finish their work.
    It ends when all known members have joined, or at the rebalance timeout, when those that have
    not are dropped. First the next generation's number is stored; then JoinGroup is answered.
``CompletingRebalance``
    The members know their generation, SyncGroup waits for the leader's assignment. Nobody may
    commit. The assignment is stored, then SyncGroup is answered and the group is Stable.
``Stable``
    Everybody works. A new member, a lost one, a changed subscription, or the leader joining again
    starts the next rebalance.
``Dead``
    The group is deleted or expired; a tombstone of it is in the log.

What survives a restart is the last stored record: the members and assignments of the last Stable
generation, or only the number of a generation whose assignment was never stored. Its members then
learn UNKNOWN_MEMBER_ID, and join anew with the next number. (Kafka stores nothing before the
assignment and so may hand out one number twice.)
"""

from __future__ import annotations

from enum import Enum

__all__ = ["TRANSITIONS", "GroupState"]


class GroupState(Enum):
    """What DescribeGroups and ListGroups call the state of a group."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""Which state may follow which."""
