"""The next state of a partition when brokers come and go, or when a change is requested.

Every change of a partition after its creation goes through `change_partition`. It takes the
partition, the availability of the brokers, and what is requested; and it works out all
consequences, so that these invariants hold afterwards:

- The ISR is never empty. With a leader, its members are unfenced and the leader is one of them.
- Without a leader, each member of the ISR may lead once it is back.
- Eligible leader replicas (ELR, KIP-966) are not in the ISR, but still have every committed record.
  They exist only while the ISR is smaller than min.insync.replicas, that is, while nothing is
  committed: a replica that left the ISR in that time misses nothing.
- Without a leader, ``last_known_eligible_leaders`` is the last one; with a leader it is empty.

**Who leads.** A leader that is unfenced and in the ISR is never deposed: it can only hand over (see
`minikafka.metadata.elections`). Otherwise, each in the order of the replicas: an active member of
the ISR; an active ELR; and, where unclean election is allowed, any active replica. (Active:
unfenced and not about to stop.) If there is none, the partition has no leader.

**An unclean shutdown** may have lost the end of a log, so the broker leaves the ISR and the ELR
where others remain. Where it was the last, the last known leader is the ISR, which is often
itself: a topic with one replica is served again after a ``kill -9`` (KIP-966's last known leader).

**Epochs.** ``partition_epoch`` rises with every change; it exposes a proposal made on an older
state. ``leader_epoch`` rises when the leader changes, also to none, and when replicas are removed,
so that a removed replica cannot keep fetching as a follower. It does not rise when the ISR shrinks
(Kafka stopped doing that with 3.6): followers and clients would restart for nothing, since a leader
that does not know yet still waits for the larger ISR, which is safe.

**A reassignment** (KIP-455) is complete when all added replicas are in the ISR and the leader
stays. A leader that is to be removed is asked to hand over first (``next_leader``); its hand-over
completes the reassignment. Without a leader nothing is removed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from .image import MetadataImage, TopicImage
from .records import NO_LEADER, PartitionRecord
from .replication_rules import ReplicationRules, Settings, rules_of_topic

__all__ = [
    "Assignment",
    "BrokerAvailability",
    "PartitionChanges",
    "RequestedChange",
    "change_partition",
]

_NOBODY: frozenset[int] = frozenset()


class BrokerAvailability(NamedTuple):
    """Which brokers may lead and be in sync, once the decision is replayed.

    Attributes:
        unfenced: brokers that may stay in an ISR.
        active: those of them that may join an ISR or become leaders.
    """

    unfenced: frozenset[int]
    active: frozenset[int]

    @classmethod
    def of(
        cls, image: MetadataImage, *, joining: int | None = None, leaving: Collection[int] = ()
    ) -> BrokerAvailability:
        """From the image, and the brokers that this decision unfences (one) and fences."""
        come = frozenset(() if joining is None else (joining,))
        brokers = [one for one in image.brokers.values() if one.broker_id not in leaving]
        return cls(
            frozenset(one.broker_id for one in brokers if not one.is_fenced) | come,
            frozenset(one.broker_id for one in brokers if one.is_active) | come,
        )


class Assignment(NamedTuple):
    """The replicas during a reassignment; see `PartitionRecord` for the fields."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class RequestedChange(NamedTuple):
    """What is to change; by default only what follows from the brokers' availability.

    Attributes:
        in_sync_replicas: the ISR, checked by the caller. It holds the leader.
        leader: the leader hands over to this member of the ISR, which is active.
        next_leader: the leader is asked to hand over to this replica, or (NO_LEADER) no longer is.
        assignment: replicas, and which of them are added and removed.
        leaving: brokers that leave the ISR where others remain.
        unclean: like ``leaving``, brokers that may have lost the end of their logs.
        may_elect_uncleanly: an unclean election was requested.
        has_new_leader_epoch: the leader is a new process and may not know what its epoch wrote.
        has_new_partition_epoch: proposals made on the present state are to be refused.
    """

    in_sync_replicas: tuple[int, ...] | None = None
    leader: int | None = None
    next_leader: int | None = None
    assignment: Assignment | None = None
    leaving: frozenset[int] = _NOBODY
    unclean: frozenset[int] = _NOBODY
    may_elect_uncleanly: bool = False
    has_new_leader_epoch: bool = False
    has_new_partition_epoch: bool = False


_NOTHING_REQUESTED = RequestedChange()


class PartitionChanges:
    """The partition records of one decision.

    At most one change for each partition: a second one would not see the first.

    Args:
        settings: `MetadataImage.settings`, or what they will be.
        availability: of the brokers.
        defaults: see `rules_of_topic`.
    """

    def __init__(
        self, settings: Settings, availability: BrokerAvailability, defaults: ReplicationRules
    ) -> None:
        self.records: list[PartitionRecord] = []
        self._settings = settings
        self._availability = availability
        self._defaults = defaults
        self._rules: dict[str, ReplicationRules] = {}

    def change(
        self,
        topic: TopicImage,
        partition: PartitionRecord,
        requested: RequestedChange = _NOTHING_REQUESTED,
    ) -> PartitionRecord:
        """Change one partition; returns it as it will be, the same object if nothing changes."""
        rules = self._rules.get(topic.name)
        if rules is None:
            rules = rules_of_topic(self._settings, topic.name, self._defaults)
            self._rules[topic.name] = rules
        after = change_partition(partition, requested, self._availability, rules)
        if after is not partition:
            self.records.append(after)
        return after


def change_partition(
    before: PartitionRecord,
    requested: RequestedChange,
    availability: BrokerAvailability,
    rules: ReplicationRules,
) -> PartitionRecord:
    """The next state of a partition; ``before`` itself if nothing changes."""
    replicas, adding, removing = requested.assignment or Assignment(
        before.replicas, before.adding_replicas, before.removing_replicas
    )
    members = set(replicas)
    in_sync, complete = _complete_replicas(before, requested, members)
    leader = before.leader if requested.leader is None else requested.leader
    if leader not in in_sync or leader not in availability.unfenced:
        is_unclean = rules.is_unclean_election_enabled or requested.may_elect_uncleanly
        leader = _elect(
            replicas, adding, in_sync, complete, availability.active, is_unclean=is_unclean
        )
        if leader != NO_LEADER and leader not in in_sync:
            in_sync = {leader}
            if leader not in complete:
                complete = set[int]()
    if leader != NO_LEADER:
        in_sync &= availability.unfenced

    asked = before.next_leader if requested.next_leader is None else requested.next_leader
    if leader != before.leader:
        asked = NO_LEADER
    if (adding or removing) and in_sync.issuperset(adding):
        staying = in_sync.difference(removing)
        if leader in staying:
            replicas = tuple(one for one in replicas if one not in removing)
            in_sync, adding, removing = staying, (), ()
        else:
            ready = (one for one in replicas if one in staying and one in availability.active)
            asked = next(ready, NO_LEADER)
    if asked not in in_sync or asked not in availability.active:
        asked = NO_LEADER

    is_committing = len(in_sync) >= min(rules.min_insync_replicas, len(replicas))
    eligible = set[int]() if is_committing else complete.intersection(replicas) - in_sync
    after = PartitionRecord(
        before.topic_id,
        before.partition,
        replicas,
        _in_order(in_sync, before.in_sync_replicas, replicas),
        leader,
        before.leader_epoch,
        before.partition_epoch,
        adding,
        removing,
        _in_order(eligible, before.eligible_leader_replicas, replicas),
        () if leader != NO_LEADER else _last_leaders(before),
        asked,
    )
    return _with_epochs(before, after, requested)


def _complete_replicas(
    before: PartitionRecord, requested: RequestedChange, members: set[int]
) -> tuple[set[int], set[int]]:
    """The ISR before any election, and all replicas that have every committed record."""
    eligible = set(before.eligible_leader_replicas) & members - requested.unclean
    wanted = (
        before.in_sync_replicas
        if requested.in_sync_replicas is None
        else requested.in_sync_replicas
    )
    in_sync = set(wanted) & members
    complete = (set(before.in_sync_replicas) & members | in_sync | eligible) - requested.unclean
    remaining = in_sync - requested.leaving - requested.unclean
    if remaining:
        in_sync = remaining
    elif in_sync & requested.unclean:
        last = next((one for one in _last_leaders(before) if one in members), None)
        in_sync = eligible or (in_sync if last is None else {last})
        complete |= in_sync
    return in_sync, complete


def _last_leaders(before: PartitionRecord) -> tuple[int, ...]:
    return before.last_known_eligible_leaders if before.leader == NO_LEADER else (before.leader,)


def _elect(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    in_sync: set[int],
    complete: set[int],
    active: frozenset[int],
    *,
    is_unclean: bool,
) -> int:
    candidates = [one for one in replicas if one in active]
    for choice in (in_sync, complete):
        for one in candidates:
            if one in choice:
                return one
    if not is_unclean:
        return NO_LEADER
    # A replica that is being added may have nothing at all.
    return min(candidates, key=lambda one: one in adding, default=NO_LEADER)


def _in_order(
    members: set[int], before: tuple[int, ...], replicas: tuple[int, ...]
) -> tuple[int, ...]:
    """The members in the order of the replicas, or unchanged if they are the same."""
    return before if members == set(before) else tuple(one for one in replicas if one in members)


def _with_epochs(
    before: PartitionRecord, after: PartitionRecord, requested: RequestedChange
) -> PartitionRecord:
    is_new_epoch = (
        after.leader != before.leader
        or requested.has_new_leader_epoch
        or not set(before.replicas).issubset(after.replicas)
    )
    if after == before and not is_new_epoch and not requested.has_new_partition_epoch:
        return before
    return after._replace(
        leader_epoch=before.leader_epoch + is_new_epoch, partition_epoch=before.partition_epoch + 1
    )
