"""The roles of a node in the quorum.

``Follower``
    A voter that waits for a leader, or listens to one. It votes, at most once in an epoch, for a
    candidate whose log is not behind its own. When it has not heard a leader for an election
    timeout (one to two of them, so that not all wake at once) it becomes prospective.
``Prospective``
    Asks the voters whether they *would* vote for it (pre-vote). They would not while they hear a
    leader. So a node that was cut off, or whose messages get through in one direction only, does
    not drive a working leader out of office by ever higher epochs. Nothing is stored or promised.
``Candidate``
    A majority would vote for it: it has gone to the next epoch, voted for itself, and asks for
    votes. It also gets here straight away when the leader hands over to it.
``Leader``
    A majority voted for it. It first appends an empty entry: what earlier leaders left is committed
    together with that, and only then does it take proposals. It sends every other node the
    entries that it lacks, and steps down when it has not heard a majority for an election timeout
    (check quorum): then nobody who can reach it alone waits for it in vain.
``Observer``
    Not a voter. It asks the voters for entries until a leader sends them, acknowledges them, and
    counts for nothing.

Whoever sees a higher epoch becomes a follower in it (an observer stays one). Any pre-vote request
is the exception: its epoch is a plan.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["TRANSITIONS", "Role"]


class Role(Enum):
    """What DescribeQuorum and the logs call it."""

    FOLLOWER = "Follower"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    OBSERVER = "Observer"


TRANSITIONS: dict[Role, frozenset[Role]] = {
    Role.FOLLOWER: frozenset({Role.PROSPECTIVE, Role.CANDIDATE}),
    Role.PROSPECTIVE: frozenset({Role.FOLLOWER, Role.CANDIDATE}),
    Role.CANDIDATE: frozenset({Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER}),
    Role.LEADER: frozenset({Role.FOLLOWER}),
    Role.OBSERVER: frozenset(),
}
"""Which role may follow which; staying is always possible."""
