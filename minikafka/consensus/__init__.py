"""The metadata quorum: Raft as a pure state machine (`RaftNode`), and its files (`DurableLog`).

This floor elects a leader, replicates a log of opaque payloads and says what is committed. It opens
no socket and reads no clock: events and the time go in, effects come out, and the broker's quorum
room carries them out; only `DurableLog` uses a disk, through `storage`. It does not know what the
payloads mean (that is `metadata`), nor anything of partitions, and may import `storage` and
`protocol` only.

What nodes send each other is declared in ``messages``, what a node stores in ``durable`` and
``snapshot``; ``tests/golden/consensus`` holds later versions to both. A new message is a class in
``messages`` and a row in the table of ``raft``.
"""

from .config import QuorumConfig
from .durable import DurableLog, LostEntries
from .effects import (
    Accepted,
    AddVoter,
    ChangeVoters,
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
    RecordVoters,
    Refused,
    RemoveVoter,
    RoleChanged,
    Send,
    SnapshotInstalled,
    TransferLeadership,
)
from .follower import SupersededLog
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
from .voters import Voter, VoterSet, VotersRefusal, Why

__all__ = [
    "Accepted",
    "AddVoter",
    "ChangeVoters",
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
    "RecordVoters",
    "Refused",
    "RemoveVoter",
    "Role",
    "RoleChanged",
    "Send",
    "SnapshotInstalled",
    "SupersededLog",
    "TransferLeadership",
    "Voter",
    "VoterSet",
    "VotersRefusal",
    "Why",
    "decode_message",
    "encode_message",
    "join_message",
    "split_message",
]
