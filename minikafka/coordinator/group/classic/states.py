"""The states of a classic group.

``Empty``
    No members. Offsets may be committed without a member id (a "simple" consumer); retention
    counts from when the group became empty. A member that joins moves the group to
    PreparingRebalance; the first join of an empty group waits
    ``group.initial.rebalance.delay.ms`` for more members.
``PreparingRebalance``
    Members are asked to join again: a heartbeat is answered REBALANCE_IN_PROGRESS, JoinGroup
    waits, and commits of the old generation are still accepted so that members can finish their
    work. It ends when all known members have joined, or at the rebalance timeout, when the others
    are dropped. First the next generation's number is stored; then JoinGroup is answered.
``CompletingRebalance``
    The members know their generation, and SyncGroup waits for the leader's assignment. Commits are
    refused. The assignment is stored, then SyncGroup is answered and the group is Stable.
``Stable``
    Every member has its assignment. A new member, a lost one, a changed subscription, or the leader
    joining again starts the next rebalance.
``Dead``
    The group was deleted or has expired; its tombstone is in the log.

The last stored record survives a restart: the members and assignments of the last Stable
generation, or only the number of a generation whose assignment was never stored. Members of such a
generation get UNKNOWN_MEMBER_ID and join again, with the next number. (Kafka stores nothing before
the assignment, so it may hand out a number twice.)
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """The state of a group, as DescribeGroups and ListGroups name it."""

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
"""The states that may follow each state."""
