"""What goes into a `RaftNode` (events) and what comes out of it (effects)."""

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
    """A message came from another node."""

    sender: int
    message: Message


@dataclass(frozen=True, slots=True)
class Propose:
    """Somebody decided something and wants it in the log.

    Attributes:
        payload: what was decided, not empty.
        epoch: in which this node led when it was decided; in any other epoch it is refused,
            because it was decided without knowing what another leader did in between.
        token: anything; comes back in `Accepted` or `Refused`.
    """

    payload: bytes
    epoch: int
    token: object


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The connection to a node ended, and it takes no new one: its process is gone.

    It only makes elections quick; nothing breaks if it is wrong or never comes.
    """

    node_id: int


@dataclass(frozen=True, slots=True)
class TransferLeadership:
    """A leader lets a voter take over: that one, or with None the one with the longest log."""

    node_id: int | None = None


Event = Received | Propose | PeerLost | TransferLeadership

# --- effects -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PersistState:
    """Make epoch and vote durable."""

    epoch: int
    vote: int | None


@dataclass(frozen=True, slots=True)
class PersistEntries:
    """Make entries durable in place of everything from ``first_index`` on."""

    first_index: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class PersistSnapshot:
    """Replace the whole log, durably, by a snapshot of everything up to ``index``."""

    index: int
    epoch: int
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message; it may get lost."""

    node_id: int
    message: Message


@dataclass(frozen=True, slots=True)
class Committed:
    """Every entry up to ``index`` is decided for good; apply those that were not."""

    index: int


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """What is applied has to be replaced by the snapshot, which goes up to ``index``."""

    index: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The proposal is the entry at ``index``, unless another leader overwrites it."""

    token: object
    index: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The proposal is in no log, and never will be."""

    token: object


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """Role, epoch or leader are others now."""

    role: Role
    epoch: int
    leader_id: int | None


Persist = PersistState | PersistEntries | PersistSnapshot
Effect = Persist | Send | Committed | SnapshotInstalled | Accepted | Refused | RoleChanged
