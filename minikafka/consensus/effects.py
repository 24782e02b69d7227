"""The events that go into a `RaftNode`, and the effects that come out."""

from __future__ import annotations

from dataclasses import dataclass

from .messages import Entry, Message
from .roles import Role

__all__ = [
    "Accepted",
    "Committed",
    "Effect",
    "Event",
    "PeerLost",
    "Persist",
    "PersistEntries",
    "PersistSnapshot",
    "PersistState",
    "Propose",
    "Received",
    "Refused",
    "RoleChanged",
    "Send",
    "SnapshotInstalled",
    "TransferLeadership",
]

# --- events ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived from another node."""

    sender: int
    message: Message


@dataclass(frozen=True, slots=True)
class Propose:
    """Append a decision to the log.

    Attributes:
        payload: the decision, not empty.
        epoch: in which this node led when it decided; in any other epoch the proposal is refused,
            because the decision does not know what another leader did in between.
        token: anything; returned in `Accepted` or `Refused`.
    """

    payload: bytes
    epoch: int
    token: object


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The connection to a node ended and it refuses another: its process has died.

    This only makes elections faster; nothing breaks if it is wrong or missing.
    """

    node_id: int


@dataclass(frozen=True, slots=True)
class TransferLeadership:
    """Let a voter take over the lead: with None, the one with the longest log."""

    node_id: int | None = None


Event = Received | Propose | PeerLost | TransferLeadership

# --- effects -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PersistState:
    """Make epoch and vote durable, and whether this node's directory is admitted."""

    epoch: int
    vote: int | None
    is_admitted: bool = True


@dataclass(frozen=True, slots=True)
class PersistEntries:
    """Replace everything from ``first_index`` on by these entries, durably."""

    first_index: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class PersistSnapshot:
    """Replace the whole log by a snapshot of everything up to ``index``, durably."""

    index: int
    epoch: int
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message, which may get lost."""

    node_id: int
    message: Message


@dataclass(frozen=True, slots=True)
class Committed:
    """Every entry up to ``index`` is committed; apply those that are not applied yet."""

    index: int


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """Replace the applied state by the snapshot, which goes up to ``index``."""

    index: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The proposal is the entry at ``index``, unless another leader overwrites it."""

    token: object
    index: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The proposal is in no log and never will be."""

    token: object


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """The role, the epoch or the leader changed."""

    role: Role
    epoch: int
    leader_id: int | None


Persist = PersistState | PersistEntries | PersistSnapshot
Effect = Persist | Send | Committed | SnapshotInstalled | Accepted | Refused | RoleChanged
