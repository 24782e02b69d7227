"""The metadata quorum: Raft as a pure state machine (`RaftNode`) and its files (`DurableLog`)."""

from .config import QuorumConfig
from .durable import DurableLog, LostEntries
from .effects import (
    Accepted,
    Committed,
    Effect,
    Event,
    PeerLost,
    Persist,
    PersistEntries,
    PersistSnapshot,
    PersistState,
    Propose,
    Received,
    Refused,
    RoleChanged,
    Send,
    SnapshotInstalled,
    TransferLeadership,
)
from .log import RaftLog
from .messages import (
    Entry,
    MalformedQuorumMessage,
    Message,
    decode_message,
    encode_message,
    join_message,
    split_message,
)
from .progress import Progress
from .raft import RaftNode
from .roles import Role

__all__ = [
    "Accepted",
    "Committed",
    "DurableLog",
    "Effect",
    "Entry",
    "Event",
    "LostEntries",
    "MalformedQuorumMessage",
    "Message",
    "PeerLost",
    "Persist",
    "PersistEntries",
    "PersistSnapshot",
    "PersistState",
    "Progress",
    "Propose",
    "QuorumConfig",
    "RaftLog",
    "RaftNode",
    "Received",
    "Refused",
    "Role",
    "RoleChanged",
    "Send",
    "SnapshotInstalled",
    "TransferLeadership",
    "decode_message",
    "encode_message",
    "join_message",
    "split_message",
]
