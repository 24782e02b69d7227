"""Replication of a partition as pure state machines: `LeaderReplica` and `FollowerReplica`.

``leader``: high watermark and in-sync replicas. ``hand_over``: how a leader goes without losing a
record. ``follower``: truncation and appending. ``damage``: what to do about a damaged log first.
``divergence``: where two logs part, as a leader answers it and a follower cuts. The shell moves
the bytes: a follower's position goes to the leader, through `find_divergence` and
`LeaderReplica.follower_fetched`, and the answer comes back into `FollowerReplica.answered`.
"""

from .damage import cut_before_leading
from .divergence import find_divergence, truncation_offset
from .effects import (
    NO_LEADER,
    AdvanceHighWatermark,
    AdvanceLogStart,
    AppendRecords,
    BeginEpoch,
    FollowerEffect,
    FollowHighWatermark,
    Freeze,
    IsrMember,
    LeaderEffect,
    ProposeIsr,
    RestartAt,
    Thaw,
    TruncateTo,
)
from .follower import FetchAnswer, FetchPosition, FollowerLog, FollowerReplica, FollowerState
from .isr import Committed, IsrState, Pending
from .leader import LeaderReplica, ReplicaFetchRefused
from .progress import EligibleBrokers, FollowerProgress

__all__ = [
    "NO_LEADER",
    "AdvanceHighWatermark",
    "AdvanceLogStart",
    "AppendRecords",
    "BeginEpoch",
    "Committed",
    "EligibleBrokers",
    "FetchAnswer",
    "FetchPosition",
    "FollowHighWatermark",
    "FollowerEffect",
    "FollowerLog",
    "FollowerProgress",
    "FollowerReplica",
    "FollowerState",
    "Freeze",
    "IsrMember",
    "IsrState",
    "LeaderEffect",
    "LeaderReplica",
    "Pending",
    "ProposeIsr",
    "ReplicaFetchRefused",
    "RestartAt",
    "Thaw",
    "TruncateTo",
    "cut_before_leading",
    "find_divergence",
    "truncation_offset",
]
