"""Guards of replication that are broken on purpose, in whatever simulates partitions.

The numbers of seeds are those of `tests.simulation.cluster`.
"""

from __future__ import annotations

from typing import Any

from minikafka.broker.replicas.offset_waiters import OffsetWaiter
from minikafka.broker.replicas.partition import Partition
from minikafka.metadata import alter_partition, partition_change
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import (
    AdvanceHighWatermark,
    BeginEpoch,
    EligibleBrokers,
    FetchAnswer,
    FetchPosition,
    FollowerEffect,
    FollowerReplica,
    FollowHighWatermark,
    LeaderEffect,
    LeaderReplica,
    TruncateTo,
    damage,
    follower,
)
from minikafka.replication.isr import Committed
from minikafka.replication.progress import FollowerProgress
from minikafka.storage.log import Log
from minikafka.storage.segment import LogRead
from tests.simulation.kit.mutants import Mutant, always

# --- followers ------------------------------------------------------------------------------------

_follow = Partition.follow
_answered = FollowerReplica.answered


def truncate_to_the_high_watermark(self: Partition, image: PartitionRecord, now_ms: int) -> None:
    """As before KIP-101: whatever is not known to be committed goes when the leader changes."""
    before = -1 if self.follower is None else self.follower.leader_epoch
    _follow(self, image, now_ms)
    if before != image.leader_epoch:
        cut = TruncateTo(self.log.high_watermark, is_below_high_watermark=False)
        self.carry_out([cut], now_ms)


def raise_the_high_watermark_before_cutting(
    self: FollowerReplica, asked: FetchPosition, answer: FetchAnswer, now: float
) -> list[FollowerEffect]:
    """KAFKA-14704."""
    effects = _answered(self, asked, answer, now)
    if answer.diverging is not None:
        effects.insert(0, FollowHighWatermark(answer.high_watermark))
    return effects


_read = Log.read


def read_above_the_high_watermark(
    self: Log, offset: int, *, size_bytes_max: int, **limits: Any
) -> LogRead:
    limits["upper_bound_offset"] = self.log_end_offset
    return _read(self, offset, size_bytes_max=size_bytes_max, **limits)


# --- leaders --------------------------------------------------------------------------------------

_appended = LeaderReplica.appended
_begin = LeaderReplica.begin
_find_holders = LeaderReplica._find_holders


def wait_for_the_committed_isr_only(self: LeaderReplica, now: float) -> None:
    _find_holders(self, now)
    self._holders = [one for one in self._holders if one.broker_id in self.isr.isr]


def wait_for_the_proposed_isr_only(self: LeaderReplica, now: float) -> None:
    _find_holders(self, now)
    if not isinstance(self.isr, Committed):
        proposed = self.isr.proposal.broker_ids
        self._holders = [one for one in self._holders if one.broker_id in proposed]


def join_below_the_epochs_start(self: LeaderReplica, one: FollowerProgress, now: float) -> bool:
    """KAFKA-7128."""
    return (
        one.fetch_offset >= self.high_watermark
        and one.broker_id in self.replicas
        and self._is_eligible(one)
    )


def join_at_any_offset(self: LeaderReplica, one: FollowerProgress, now: float) -> bool:
    return one.fetch_offset >= 0 and one.broker_id in self.replicas and self._is_eligible(one)


def begin_without_recording_the_epoch(self: LeaderReplica, now: float) -> list[LeaderEffect]:
    return [one for one in _begin(self, now) if not isinstance(one, BeginEpoch)]


def check_no_broker_epoch(
    self: LeaderReplica, broker_id: int, broker_epoch: int
) -> FollowerProgress:
    follower = self._followers.get(broker_id)
    return FollowerProgress(broker_id) if follower is None else follower


def may_join_in_any_life(self: EligibleBrokers, broker_id: int, broker_epoch: int) -> bool:
    return broker_id in self.epochs


def advance_whatever_was_before(self: LeaderReplica, effects: list[LeaderEffect]) -> None:
    """The high watermark may go back."""
    offsets = [one.fetch_offset for one in self._holders if one.fetch_offset >= 0]
    offset = min(offsets, default=self._own_offset)
    if offset != self.high_watermark:
        self.high_watermark = offset
        effects.append(AdvanceHighWatermark(offset))


def count_what_is_not_synced(
    self: LeaderReplica, log_end_offset: int, now: float
) -> list[LeaderEffect]:
    effects = _appended(self, log_end_offset, now)
    self._own_offset = log_end_offset
    self._advance(effects)
    return effects


def acknowledge_at_once(self: Partition, waiter: OffsetWaiter, offset: int) -> None:
    waiter.settle(ErrorCode.NONE)


# --- the controller


def elect_any_broker(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    in_sync: set[int],
    complete: set[int],
    active: frozenset[int],
    *,
    is_unclean: bool,
) -> int:
    """Any broker that is alive, in sync or not."""
    return next((one for one in replicas if one in active), NO_LEADER)


read_above_high_watermark = Mutant(
    "consumers read what is above the high watermark",
    20,
    ((Log, "read", read_above_the_high_watermark),),
)
proposed_isr_only = Mutant(
    "the proposed ISR is enough for the high watermark",
    100,
    ((LeaderReplica, "_find_holders", wait_for_the_proposed_isr_only),),
)
early_acknowledgement = Mutant(
    "acks=all is answered after the append",
    20,
    ((Partition, "wait_for_commit", acknowledge_at_once),),
)

MUTANTS = (
    Mutant(
        "followers truncate to the high watermark",
        40,
        ((Partition, "follow", truncate_to_the_high_watermark),),
    ),
    Mutant(
        "the high watermark rises before a follower cuts",
        200,
        ((FollowerReplica, "answered", raise_the_high_watermark_before_cutting),),
    ),
    read_above_high_watermark,
    Mutant(
        "followers keep damaged batches",
        200,
        ((follower, "first_damage", always(None)), (damage, "first_damage", always(None))),
    ),
    Mutant(
        "the committed ISR is enough for the high watermark",
        100,
        ((LeaderReplica, "_find_holders", wait_for_the_committed_isr_only),),
    ),
    proposed_isr_only,
    Mutant(
        "followers join below the epoch's start",
        100,
        ((LeaderReplica, "_may_join", join_below_the_epochs_start),),
    ),
    Mutant(
        "followers join wherever they are", 20, ((LeaderReplica, "_may_join", join_at_any_offset),)
    ),
    Mutant(
        "leaders do not record their epoch",
        200,
        ((LeaderReplica, "begin", begin_without_recording_the_epoch),),
    ),
    Mutant(
        "stale broker epochs may join",
        20,
        (
            (LeaderReplica, "check_follower", check_no_broker_epoch),
            (EligibleBrokers, "may_join", may_join_in_any_life),
            (alter_partition, "_member_refusal", always(None)),
        ),
        first=220,
    ),
    Mutant(
        "the high watermark may go back",
        40,
        ((LeaderReplica, "_advance", advance_whatever_was_before),),
    ),
    early_acknowledgement,
    Mutant(
        "min.insync.replicas does not hold the high watermark back",
        100,
        ((LeaderReplica, "is_under_min_isr", False),),
    ),
    Mutant("any live broker is elected", 40, ((partition_change, "_elect", elect_any_broker),)),
)
