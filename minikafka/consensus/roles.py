"""The roles of a node in the quorum.

``Follower``
    A voter that waits for a leader, or follows one. It votes, at most once in an epoch, for a
    candidate whose log is not behind its own. When it has not heard from a leader for one to two
    election timeouts (at random, so that not all wake together) it becomes prospective.
``Prospective``
    Asks the voters whether they *would* vote for it (pre-vote). They would not while they hear from
    a leader. So a node that was partitioned, or whose messages get through in one direction only,
    does not depose a working leader by ever higher epochs. Nothing is stored or promised.
``Candidate``
    A majority would vote for it: it has moved to the next epoch, voted for itself, and asks for
    votes. A follower to which the leader hands over gets here directly.
``Leader``
    A majority voted for it. It first appends an empty entry: entries of earlier leaders are
    committed together with that one, and only then does it accept proposals. It sends every other
    node the entries that it lacks, and steps down when it has not heard from a majority for an
    election timeout (check quorum), so that clients that reach only this node do not wait in vain.
``Observer``
    Not a voter. It asks the voters for entries until a leader sends them, and acknowledges them; it
    is in no majority.

Who is a voter may change with the log (`minikafka.consensus.voters`), so an observer may become a
follower, and every other node an observer. A voter that was removed stays what it is until it knows
that this is committed: until then its vote, and even its candidacy, may be needed. A leader that
was removed leads until then, without counting itself, and steps down.

A node that sees a higher epoch becomes a follower in it (an observer stays one), except for the
epoch of a pre-vote request, which is only a plan.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["TRANSITIONS", "Role"]


class Role(Enum):
    """By the name that DescribeQuorum and the log messages use."""

    FOLLOWER = "Follower"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    OBSERVER = "Observer"


TRANSITIONS: dict[Role, frozenset[Role]] = {
    Role.FOLLOWER: frozenset({Role.PROSPECTIVE, Role.CANDIDATE, Role.OBSERVER}),
    Role.PROSPECTIVE: frozenset({Role.FOLLOWER, Role.CANDIDATE, Role.OBSERVER}),
    Role.CANDIDATE: frozenset({Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER, Role.OBSERVER}),
    Role.LEADER: frozenset({Role.FOLLOWER, Role.OBSERVER}),
    Role.OBSERVER: frozenset({Role.FOLLOWER}),
}
"""The roles that may follow each role; staying is always possible."""
