"""Guards that are broken on purpose: the simulation has to notice each of them.

A simulation that needs more seeds for one than it says has become weaker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from minikafka.metadata import isr_changes, partition_change
from minikafka.metadata.image import NO_LEADER, PartitionImage
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
    damage,
    follower,
)
from minikafka.replication.isr import Committed
from minikafka.replication.leader_state import LeaderState
from minikafka.replication.progress import FollowerProgress
from minikafka.storage import truncation
from tests.simulation.cluster.cluster import Plan
from tests.simulation.cluster.leading import Leading
from tests.simulation.cluster.messages import Produced, Read, ReadAnswer
from tests.simulation.cluster.node import SimulatedNode
from tests.simulation.cluster.replica import SimulatedReplica

Replacement = tuple[Any, str, Any]
"""Owner, attribute, and what takes its place."""


class Mutant(NamedTuple):
    """A broken guard.

    Attributes:
        name: What it does.
        seeds: How many are enough to notice it.
        replacements: What is replaced by what.
        first: The first of them, where many would be needed.
        plan: What the runs are like.
    """

    name: str
    seeds: int
    replacements: tuple[Replacement, ...]
    first: int = 0
    plan: Plan = Plan()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break it for a while."""
        with ExitStack() as stack:
            for owner, attribute, replacement in self.replacements:
                stack.enter_context(patch.object(owner, attribute, replacement))
            yield


def always(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


# --- followers ------------------------------------------------------------------------------------

_follow = SimulatedReplica._follow
_answered = FollowerReplica.answered


def truncate_to_the_high_watermark(self: SimulatedReplica, image: PartitionImage) -> None:
    """As before KIP-101: whatever was not known to be committed goes when the leader changes."""
    before = -1 if self.follower is None else self.follower.leader_epoch
    _follow(self, image)
    if before != image.leader_epoch:
        self.log.truncate_to(self.log.high_watermark)
        self.cut_entries()
        self.ask()


def raise_the_high_watermark_before_cutting(
    self: FollowerReplica, asked: FetchPosition, answer: FetchAnswer, now: float
) -> list[FollowerEffect]:
    """KAFKA-14704."""
    effects = _answered(self, asked, answer, now)
    if answer.diverging is not None:
        effects.insert(0, FollowHighWatermark(answer.high_watermark))
    return effects


def read_above_the_high_watermark(self: SimulatedReplica, client: int, request: Read) -> None:
    if self.leader is None and request.offset < self.log.log_end_offset:
        entries = tuple(self.entries_between(request.offset, self.log.log_end_offset))
        self.node.truth.read(self.number, entries)
        answer = ReadAnswer(self.number, request.correlation, ErrorCode.NONE, entries)
        self.node.send(client, answer)


# --- leaders --------------------------------------------------------------------------------------

_appended = LeaderReplica.appended
_begin = LeaderReplica.begin
_find_holders = LeaderState._find_holders


def wait_for_the_committed_isr_only(self: LeaderState, now: float) -> None:
    _find_holders(self, now)
    self._holders = [one for one in self._holders if one.broker_id in self.isr.isr]


def wait_for_the_proposed_isr_only(self: LeaderState, now: float) -> None:
    _find_holders(self, now)
    if not isinstance(self.isr, Committed):
        proposed = self.isr.proposal.broker_ids
        self._holders = [one for one in self._holders if one.broker_id in proposed]


def join_below_the_epochs_start(self: LeaderState, one: FollowerProgress, now: float) -> bool:
    """KAFKA-7128."""
    return (
        one.fetch_offset >= self.high_watermark
        and one.broker_id in self.replicas
        and self._is_eligible(one)
    )


def join_at_any_offset(self: LeaderState, one: FollowerProgress, now: float) -> bool:
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


def advance_whatever_was_before(self: LeaderState, effects: list[LeaderEffect]) -> None:
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


def acknowledge_at_once(
    self: Leading, last_offset: int, client: int, answer: Produced, value: str
) -> None:
    self._acknowledge(client, answer, value)


# --- the controller, and lives --------------------------------------------------------------------

_register = SimulatedNode._register


def elect_anybody(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    in_sync: set[int],
    complete: set[int],
    active: frozenset[int],
    *,
    is_unclean: bool,
) -> int:
    """Whoever is alive, in sync or not."""
    return next((one for one in replicas if one in active), NO_LEADER)


def claim_a_clean_shutdown(self: SimulatedNode, previous_broker_epoch: int) -> None:
    """Whatever happened to the disk, the broker says that it stopped in good order."""
    broker = self.truth.image.brokers.get(self.node_id)
    _register(self, -1 if broker is None else broker.broker_epoch)


MUTANTS = (
    Mutant(
        "followers truncate to the high watermark",
        40,
        ((SimulatedReplica, "_follow", truncate_to_the_high_watermark),),
    ),
    Mutant(
        "the high watermark rises before a follower cuts",
        200,
        ((FollowerReplica, "answered", raise_the_high_watermark_before_cutting),),
    ),
    Mutant(
        "followers show what is above the high watermark",
        20,
        ((SimulatedReplica, "read", read_above_the_high_watermark),),
    ),
    Mutant(
        "followers keep damaged batches",
        200,
        ((follower, "first_damage", always(None)), (damage, "first_damage", always(None))),
    ),
    Mutant(
        "the committed ISR is enough for the high watermark",
        100,
        ((LeaderState, "_find_holders", wait_for_the_committed_isr_only),),
    ),
    Mutant(
        "the proposed ISR is enough for the high watermark",
        100,
        ((LeaderState, "_find_holders", wait_for_the_proposed_isr_only),),
    ),
    Mutant(
        "followers join below the epoch's start",
        100,
        ((LeaderState, "_may_join", join_below_the_epochs_start),),
    ),
    Mutant(
        "followers join wherever they are", 20, ((LeaderState, "_may_join", join_at_any_offset),)
    ),
    Mutant(
        "leaders do not record their epoch",
        200,
        ((LeaderReplica, "begin", begin_without_recording_the_epoch),),
    ),
    Mutant(
        "stale broker epochs may join",
        300,
        (
            (LeaderReplica, "check_follower", check_no_broker_epoch),
            (EligibleBrokers, "may_join", may_join_in_any_life),
            (isr_changes, "_member_refusal", always(None)),
        ),
        first=220,
    ),
    Mutant(
        "the high watermark may go back",
        40,
        ((LeaderState, "_advance", advance_whatever_was_before),),
    ),
    Mutant(
        "acks=all is answered after the append",
        20,
        ((Leading, "_wait_for_commit", acknowledge_at_once),),
    ),
    Mutant(
        "a leader counts what it has not synced",
        40,
        ((LeaderReplica, "appended", count_what_is_not_synced),),
        plan=Plan(is_synced=True, replica_count=1, min_insync=1),
    ),
    Mutant(
        "min.insync.replicas does not hold the high watermark back",
        100,
        ((LeaderState, "is_under_min_isr", False),),
    ),
    Mutant("anybody is elected", 40, ((partition_change, "_elect", elect_anybody),)),
    Mutant(
        "every shutdown is called clean",
        100,
        ((SimulatedNode, "_register", claim_a_clean_shutdown),),
    ),
    Mutant(
        "a broker acts on what was decided about an earlier life",
        100,
        ((SimulatedNode, "_is_registered", True),),
    ),
    Mutant(
        "recovery trusts what was written behind a cut",
        200,
        ((truncation, "remember_cut", always(None)),),
        first=80,
    ),
)
