"""Replication of one partition, as pure state machines: `LeaderReplica` and `FollowerReplica`.

This floor decides what is committed (the high watermark), who is in sync, where a follower cuts its
log, and how a leader hands over. It touches no log, socket or clock: offsets, epochs and the time
go in, effects come out, and the broker's replica room carries them out. It knows nothing of topics,
of the metadata log or of Raft, and it may import `storage` and `protocol` only.

``leader``: high watermark, in-sync replicas, hand-over. ``follower``: truncation and appending.
``divergence``: where two logs diverge, for the leader's answer and the follower's cut.
``damage``: what a replica does about a damaged log first.
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
