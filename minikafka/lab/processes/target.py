"""A cluster under attack, whoever made it: where it is, and what can be done to its nodes.

| target | its nodes are | how |
|---|---|---|
| `minikafka` | `minikafka.testing.cluster` | methods, failpoints, injected disconnects |
| `apache-kafka` | java processes of an unpacked distribution | signals |
| `verify` | anything behind ``--bootstrap`` | a command of the user for each action |

A scenario uses only what a target `can` do; where that does not suffice for a fault, the cell is
left out with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Protocol


class Action(Enum):
    """What can be done to a node. The words are those of ``lab verify --on ACTION=COMMAND``."""

    KILL = "kill"
    """End the process without a warning; its disk stays."""
    STOP = "stop"
    """Ask it to stop, and wait until it has."""
    START = "start"
    """Start it again, and wait until it serves clients."""
    PAUSE = "pause"
    RESUME = "resume"
    ISOLATE = "isolate"
    """Cut it off from the other nodes; clients still reach it."""
    HEAL = "heal"
    """End all cuts, and let nodes store again."""
    LOSE_REQUEST = "lose-request"
    """End the connection of the next Produce before it takes effect."""
    REFUSE = "refuse"
    """Answer the next Produce with an error that passes; it takes no effect."""
    LOSE_ACK = "lose-ack"
    """End the connection of the next Produce after it has taken effect, without an answer."""
    KILL_BEFORE_APPEND = "kill-before-append"
    """Kill it when the next batch has arrived and is not stored."""
    KILL_AFTER_APPEND = "kill-after-append"
    """Kill it when it has stored the next batch; nobody knows."""
    KILL_AFTER_ACK = "kill-after-ack"
    """Kill it when it has acknowledged the next batch and no follower has it."""
    FALL_BEHIND = "fall-behind"
    """Keep it from storing what others lead, so that it leaves their ISR, until `HEAL`."""
    WIPE = "wipe"
    """Delete the partitions on its disk while it does not run; its metadata log stays."""
    JUMP_CLOCK = "jump-clock"
    LOSE_POWER = "lose-power"
    """End the process without a warning, if it runs, and lose what its disk has not synced."""


class CannotError(RuntimeError):
    """The target failed to do something to a node; the message says what and why."""


class Target(Protocol):
    """A cluster under attack.

    Attributes:
        name: ``minikafka``, ``apache-kafka`` or ``verify``.
        version: of its brokers.
        bootstrap: for clients.
        properties: what clients need besides, by Kafka's names: who they are, for instance.
        nodes: ids of its nodes.
        can: what `do` knows.
        session_ms: the shortest session of a group's member that its brokers accept.
        is_direct: whether nothing stands between clients and brokers: then times are measured.
        patience_s: how long it may take for what it always does in the end, such as an election.
    """

    name: str
    version: str
    bootstrap: str
    properties: Mapping[str, str]
    nodes: Collection[int]
    can: frozenset[Action]
    session_ms: int
    is_direct: bool
    patience_s: float

    def do(self, action: Action, node: int) -> None:
        """Do it, and return when it has happened (armed, for the actions about a next batch).

        Raises:
            CannotError: it failed, or is not in `can`.
        """
        ...

    def restore(self) -> None:
        """Have all nodes run, reach each other and serve clients again."""
        ...

    def close(self) -> None:
        """End what was started for it."""
        ...
