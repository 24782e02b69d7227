"""What becomes of one partition when brokers come and go, or when somebody asks for a change.

Every change of a partition after its creation goes through `change_partition`. It takes the
partition as it is, who may do what in the cluster, and a wish; and it settles everything that
follows, so that these always hold afterwards:

- The ISR is never empty. With a leader, its members are unfenced and the leader is one of them.
- Without a leader, the ISR are those of whom each may lead once it is back.
- Eligible leader replicas (ELR, KIP-966) are not in the ISR, but have every committed record all
  the same. There are some only while the ISR is smaller than min.insync.replicas, that is, while
  nothing is committed: who has left the ISR meanwhile misses nothing.
- Without a leader, ``last_known_eligible_leaders`` is the last one; with a leader it is empty.

**Who leads.** Nobody takes the lead from a leader that is unfenced and in the ISR: it can only hand
over (see `minikafka.metadata.elections`). Otherwise, each in the order of the replicas: an active
member of the ISR; an active ELR; and, where unclean election is allowed, any active replica.
(Active: unfenced and not about to stop.) Where nobody can, the partition has no leader.

**An unclean shutdown** may have lost the end of a log, so the broker leaves the ISR and the ELR
where others remain. Where it was the last, the last known leader is the ISR, which is often
itself: a topic with one replica is served again after a ``kill -9`` (KIP-966's last known leader).

**Epochs.** ``partition_epoch`` rises with every change; a proposal made on an older state is
recognised by it. ``leader_epoch`` rises when the leader changes, also to none, and when replicas
are removed, so that a replica that is gone cannot go on fetching as a follower. It does not rise
when the ISR shrinks (Kafka stopped doing that with 3.6): followers and clients would start anew for
nothing, since a leader that does not know yet still waits for the larger ISR, which is safe.

**A reassignment** (KIP-455) is over when all added replicas are in the ISR and the leader stays. A
leader that shall be removed is asked to hand over first (``next_leader``); with its hand-over the
reassignment is over too. Without a leader nothing is removed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from .image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from .records import PartitionRecord
from .replication_rules import ReplicationRules, Settings, rules_of_topic

__all__ = ["Assignment", "BrokerStanding", "PartitionChanges", "Wish", "change_partition"]

_NOBODY: frozenset[int] = frozenset()


class BrokerStanding(NamedTuple):
    """Who may do what, as it will be when the decision is replayed.

    Attributes:
        unfenced: brokers that may stay in an ISR.
        active: those of them that may come into an ISR or become leaders.
    """

    unfenced: frozenset[int]
    active: frozenset[int]

    @classmethod
    def of(
        cls, image: MetadataImage, *, joining: int | None = None, leaving: Collection[int] = ()
    ) -> BrokerStanding:
        """Take it from the image, with brokers that this decision unfences and fences."""
        come = frozenset(() if joining is None else (joining,))
        brokers = [one for one in image.brokers.values() if one.broker_id not in leaving]
        return cls(
            frozenset(one.broker_id for one in brokers if not one.is_fenced) | come,
            frozenset(one.broker_id for one in brokers if one.is_active) | come,
        )


class Assignment(NamedTuple):
    """Replicas as a reassignment wants them; see `PartitionImage` for the fields."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class Wish(NamedTuple):
    """What shall change; by default nothing but what follows from the brokers' standing.

    Attributes:
        in_sync_replicas: the ISR, checked by the caller. It holds the leader.
        leader: the leader hands over to this member of the ISR, which is active.
        next_leader: the leader is asked to hand over to this replica, or (NO_LEADER) not any more.
        assignment: replicas, and which of them come and go.
        leaving: brokers that are not in sync any more where others are.
        unclean: brokers that may have lost the end of their logs, as well.
        may_elect_uncleanly: True when somebody asked for an unclean election.
        has_new_leader_epoch: True when the leader is a new process and may not know what its
            epoch wrote.
        has_new_partition_epoch: True when proposals made on the present state shall be refused.
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


_NO_WISH = Wish()


class PartitionChanges:
    """The partition records of one decision.

    At most one change for each partition: a second would not see the first.

    Args:
        settings: `MetadataImage.settings`, or what they will be.
        standing: of the brokers.
        defaults: see `rules_of_topic`.
    """

    def __init__(
        self, settings: Settings, standing: BrokerStanding, defaults: ReplicationRules
    ) -> None:
        self.records: list[PartitionRecord] = []
        self._settings = settings
        self._standing = standing
        self._defaults = defaults
        self._rules: dict[str, ReplicationRules] = {}

    def change(
        self, topic: TopicImage, partition: PartitionImage, wish: Wish = _NO_WISH
    ) -> PartitionImage:
        """Settle one partition; returns it as it will be, the same object when nothing changes."""
        rules = self._rules.get(topic.name)
        if rules is None:
            rules = rules_of_topic(self._settings, topic.name, self._defaults)
            self._rules[topic.name] = rules
        after = change_partition(partition, wish, self._standing, rules)
        if after is not partition:
            self.records.append(PartitionRecord(topic.topic_id, *after))
        return after


def change_partition(
    before: PartitionImage, wish: Wish, standing: BrokerStanding, rules: ReplicationRules
) -> PartitionImage:
    """Settle a partition; returns ``before`` itself when nothing changes."""
    replicas, adding, removing = wish.assignment or Assignment(
        before.replicas, before.adding_replicas, before.removing_replicas
    )
    members = set(replicas)
    in_sync, complete = _who_is_complete(before, wish, members)
    leader = before.leader if wish.leader is None else wish.leader
    if leader not in in_sync or leader not in standing.unfenced:
        is_unclean = rules.is_unclean_election_enabled or wish.may_elect_uncleanly
        leader = _elect(replicas, adding, in_sync, complete, standing.active, is_unclean=is_unclean)
        if leader != NO_LEADER and leader not in in_sync:
            in_sync = {leader}
            if leader not in complete:
                complete = set[int]()
    if leader != NO_LEADER:
        in_sync &= standing.unfenced

    asked = before.next_leader if wish.next_leader is None else wish.next_leader
    if leader != before.leader:
        asked = NO_LEADER
    if (adding or removing) and in_sync.issuperset(adding):
        staying = in_sync.difference(removing)
        if leader in staying:
            replicas = tuple(one for one in replicas if one not in removing)
            in_sync, adding, removing = staying, (), ()
        else:
            ready = (one for one in replicas if one in staying and one in standing.active)
            asked = next(ready, NO_LEADER)
    if asked not in in_sync or asked not in standing.active:
        asked = NO_LEADER

    is_committing = len(in_sync) >= min(rules.min_insync_replicas, len(replicas))
    eligible = set[int]() if is_committing else complete.intersection(replicas) - in_sync
    after = PartitionImage(
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
    return _with_epochs(before, after, wish)


def _who_is_complete(
    before: PartitionImage, wish: Wish, members: set[int]
) -> tuple[set[int], set[int]]:
    """Find the ISR before any election, and all who have every committed record."""
    eligible = set(before.eligible_leader_replicas) & members - wish.unclean
    wanted = before.in_sync_replicas if wish.in_sync_replicas is None else wish.in_sync_replicas
    in_sync = set(wanted) & members
    complete = (set(before.in_sync_replicas) & members | in_sync | eligible) - wish.unclean
    remaining = in_sync - wish.leaving - wish.unclean
    if remaining:
        in_sync = remaining
    elif in_sync & wish.unclean:
        last = next((one for one in _last_leaders(before) if one in members), None)
        in_sync = eligible or (in_sync if last is None else {last})
        complete |= in_sync
    return in_sync, complete


def _last_leaders(before: PartitionImage) -> tuple[int, ...]:
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
    """The members in the order of the replicas, or as they were when they are the same."""
    return before if members == set(before) else tuple(one for one in replicas if one in members)


def _with_epochs(before: PartitionImage, after: PartitionImage, wish: Wish) -> PartitionImage:
    is_new_epoch = (
        after.leader != before.leader
        or wish.has_new_leader_epoch
        or not set(before.replicas).issubset(after.replicas)
    )
    if after == before and not is_new_epoch and not wish.has_new_partition_epoch:
        return before
    return after._replace(
        leader_epoch=before.leader_epoch + is_new_epoch, partition_epoch=before.partition_epoch + 1
    )
