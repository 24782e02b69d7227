"""The events that go into a `RaftNode`, and the effects that come out."""

from __future__ import annotations

from ..data_class import DataClass
from .messages import Entry, Message
from .roles import Role
from .voters import Voter, VotersRefusal

__all__ = [
    "Accepted",
    "AddVoter",
    "ChangeVoters",
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
    "RecordVoters",
    "Refused",
    "RemoveVoter",
    "RoleChanged",
    "Send",
    "SnapshotInstalled",
    "TransferLeadership",
]

# --- events ------------------------------------------------------------------------------------


class Received(DataClass):
    """A message arrived from another node."""

    sender: int
    message: Message


class Propose(DataClass):
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


class PeerLost(DataClass):
    """The connection to a node ended and it refuses another: its process has died.

    This only makes elections faster; nothing breaks if it is wrong or missing.
    """

    node_id: int


class TransferLeadership(DataClass):
    """Let a voter take over the lead: with None, the one with the longest log."""

    node_id: int | None = None


class RecordVoters(DataClass):
    """Record the configured voters in the log, so that they may be changed from then on.

    Attributes:
        addresses: (node id, host, port) of each.
        token: as in `Propose`.
    """

    addresses: tuple[tuple[int, str, int], ...]
    token: object


class AddVoter(DataClass):
    """Let an observer vote, with the directory that it has."""

    voter: Voter
    token: object


class RemoveVoter(DataClass):
    """Make a voter with this directory an observer."""

    node_id: int
    directory_id: bytes
    token: object


ChangeVoters = RecordVoters | AddVoter | RemoveVoter
Event = Received | Propose | PeerLost | TransferLeadership | ChangeVoters

# --- effects -----------------------------------------------------------------------------------


class PersistState(DataClass):
    """Make epoch and vote durable, and whether this node's directory is admitted."""

    epoch: int
    vote: int | None
    is_admitted: bool = True


class PersistEntries(DataClass):
    """Replace everything from ``first_index`` on by these entries, durably."""

    first_index: int
    entries: tuple[Entry, ...]


class PersistSnapshot(DataClass):
    """Replace the whole log by a snapshot of everything up to ``index``, durably."""

    index: int
    epoch: int
    snapshot: bytes


class Send(DataClass):
    """Send a message, which may get lost."""

    node_id: int
    message: Message


class Committed(DataClass):
    """Every entry up to ``index`` is committed; apply those that are not applied yet."""

    index: int


class SnapshotInstalled(DataClass):
    """Replace the applied state by the snapshot, which goes up to ``index``."""

    index: int


class Accepted(DataClass):
    """The proposal is the entry at ``index``, unless another leader overwrites it."""

    token: object
    index: int
    epoch: int


class Refused(DataClass):
    """The proposal is in no log and never will be; of a change of the voters, why."""

    token: object
    refusal: VotersRefusal | None = None


class RoleChanged(DataClass):
    """The role, the epoch or the leader changed."""

    role: Role
    epoch: int
    leader_id: int | None


Persist = PersistState | PersistEntries | PersistSnapshot
Effect = Persist | Send | Committed | SnapshotInstalled | Accepted | Refused | RoleChanged
