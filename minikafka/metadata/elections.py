"""Elections of partition leaders: ElectLeaders (KIP-183, KIP-460), balance, and planned moves.

**Planned moves lose nothing.** Kafka's controller just names the new leader, and the old one
truncates what the new one has not fetched yet: records acknowledged with acks=1 vanish in a rolling
restart (KAFKA-20554). Here the controller never deposes a live leader. It *asks* it to hand over,
and the leader does so when the other replica has everything:

1. The controller writes ``next_leader`` into the partition (preferred election, balance,
   reassignment), or the leader itself wants to stop (`brokers.controlled_shutdown`) and chooses an
   active member of the ISR, preferably one that is caught up.
2. The leader waits until that replica has fetched all but the newest records, as it may be slow.
   Then it *freezes* the partition: appends in progress finish, and nothing more is appended. New
   produce requests wait (bounded) or get NOT_LEADER_OR_FOLLOWER; fetching continues.
3. When the replica has fetched up to the frozen log end offset, the leader proposes the change
   itself: `isr_changes.alter_partitions` with ``leader`` set to the replica and with its leader
   epoch and partition epoch. The controller checks it like every ISR change and makes the replica
   leader of the next epoch. It begins where the old log ends, so nobody truncates anything.
4. The old leader learns of it as everybody does, when its image has the new epoch; then it answers
   the waiting requests with NOT_LEADER_OR_FOLLOWER and follows.

A frozen leader *thaws* (appends again) only when the hand-over can no longer happen: it has not
proposed it yet; or it sent the proposal once and got a refusal; or its image shows the partition
with a larger partition epoch than the proposal had, and itself as the leader. A timeout is not
enough: the proposal may still be in flight, and a record that is appended after the freeze would
be lost with it. Instead the leader proposes itself as ``leader``: this changes nothing but the
partition epoch (and withdraws ``next_leader``), after which the old proposal is refused. A leader
should freeze for a second at most, thaw, and retry later if the other replica keeps lagging.

``next_leader`` is in the image, so the request survives a change of the controller. It ends when
the leader changes, or when the replica leaves the ISR or is fenced. An ElectLeaders handler that
got `Election.is_pending` waits, within the request's timeout, until its image shows that the
partition has that leader, or no longer has that ``next_leader``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .decision import Decision, Refusal
from .image import MetadataImage, TopicImage
from .partition_change import BrokerAvailability, PartitionChanges, RequestedChange
from .records import NO_LEADER, PartitionRecord
from .replication_rules import ReplicationRules, rules_of_topic

__all__ = [
    "MOVES_MAX",
    "Election",
    "ElectionKind",
    "balance_leaders",
    "elect_leaders",
    "elect_uncleanly",
]

MOVES_MAX = 1000
"""The most leaders that `balance_leaders` asks to move in one decision (as in Kafka)."""


class ElectionKind(IntEnum):
    """The election type of ElectLeaders, as on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


class Election(NamedTuple):
    """The result of an election for one partition.

    Attributes:
        refusal: why the leader does not change, or None.
        is_pending: the present leader was asked to hand over; the election is done when the image
            shows the preferred replica as the leader.
    """

    topic: str
    partition: int
    refusal: Refusal | None
    is_pending: bool = False


def elect_leaders(
    image: MetadataImage,
    kind: ElectionKind,
    partitions: Iterable[tuple[str, int]] | None,
    defaults: ReplicationRules,
) -> Decision[list[Election]]:
    """Elect preferred leaders, or any live replica where there is no leader.

    Args:
        image: before the decision.
        kind: PREFERRED makes the first replica leader if it is in sync. UNCLEAN takes any active
            replica where there is no leader; records may be lost.
        partitions: (topic name, partition number); None for all that need it.
        defaults: see `rules_of_topic`.

    Returns:
        The result for each different partition: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED
        (not with None), PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, or success.
    """
    changes = PartitionChanges(image.settings, BrokerAvailability.of(image), defaults)
    if partitions is None:
        return _elect_all(image, kind, changes)
    results: list[Election] = []
    for name, number in dict.fromkeys(partitions):
        topic = image.topics.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            message = f"There is no partition {number} of a topic '{name[:249]}'."
            refusal = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            results.append(Election(name, number, refusal))
            continue
        partition = topic.partitions[number]
        if _is_needed(kind, partition):
            results.append(_elect_one(kind, topic, partition, changes))
        else:
            message = f"The leader of {name}-{number} is broker {partition.leader} already."
            refusal = Refusal(ErrorCode.ELECTION_NOT_NEEDED, message)
            results.append(Election(name, number, refusal))
    return Decision([*changes.records], results)


def _elect_all(
    image: MetadataImage, kind: ElectionKind, changes: PartitionChanges
) -> Decision[list[Election]]:
    results = [
        _elect_one(kind, topic, partition, changes)
        for topic in image.topics.values()
        for partition in topic.partitions
        if _is_needed(kind, partition)
    ]
    return Decision([*changes.records], results)


def _is_needed(kind: ElectionKind, partition: PartitionRecord) -> bool:
    if kind is ElectionKind.UNCLEAN:
        return partition.leader == NO_LEADER
    return partition.leader != partition.replicas[0]


def _elect_one(
    kind: ElectionKind, topic: TopicImage, partition: PartitionRecord, changes: PartitionChanges
) -> Election:
    if kind is ElectionKind.UNCLEAN:
        after = changes.change(topic, partition, RequestedChange(may_elect_uncleanly=True))
        refusal = None
        if after.leader == NO_LEADER:
            refusal = Refusal(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"No replica of {topic.name}-{partition.partition} is alive; start one of the "
                f"brokers {_listed(partition.replicas)}.",
            )
        return Election(topic.name, partition.partition, refusal)
    preferred = partition.replicas[0]
    after = changes.change(topic, partition, RequestedChange(next_leader=preferred))
    if preferred not in (after.leader, after.next_leader):
        message = (
            f"The preferred leader of {topic.name}-{partition.partition}, broker {preferred}, is "
            f"not alive or not in sync; in sync are {_listed(partition.in_sync_replicas)}."
        )
        refusal = Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)
        return Election(topic.name, partition.partition, refusal)
    return Election(topic.name, partition.partition, None, after.leader != preferred)


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def balance_leaders(
    image: MetadataImage,
    defaults: ReplicationRules,
    *,
    imbalance_percentage: int = 10,
    moves_max: int = MOVES_MAX,
) -> Decision[int]:
    """Give leaders back to their preferred replicas (auto.leader.rebalance.enable).

    A broker gets its leaders back when, of the partitions that prefer it, more than a percentage
    (leader.imbalance.per.broker.percentage) are led by others. Only replicas that are in sync and
    active are asked for, and only where the present leader is not asked already.

    Returns:
        How many leaders were asked to move.
    """
    preferring: dict[int, int] = {}
    elsewhere: dict[int, list[tuple[TopicImage, PartitionRecord]]] = {}
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = partition.replicas[0]
            preferring[preferred] = preferring.get(preferred, 0) + 1
            if partition.leader not in (preferred, NO_LEADER):
                elsewhere.setdefault(preferred, []).append((topic, partition))
    changes = PartitionChanges(image.settings, BrokerAvailability.of(image), defaults)
    for preferred, partitions in elsewhere.items():
        if len(partitions) * 100 <= preferring[preferred] * imbalance_percentage:
            continue
        for topic, partition in partitions:
            if len(changes.records) >= moves_max:
                break
            changes.change(topic, partition, RequestedChange(next_leader=preferred))
    return Decision([*changes.records], len(changes.records))


def elect_uncleanly(image: MetadataImage, defaults: ReplicationRules) -> Decision[int]:
    """Elect leaders where there is none and unclean election is now allowed.

    For a controller that takes over, and after unclean.leader.election.enable was set on a node. (A
    change of the setting by `setting_changes.alter_settings` does this by itself.)

    Returns:
        How many partitions have a leader again.
    """
    changes = PartitionChanges(image.settings, BrokerAvailability.of(image), defaults)
    for topic in image.topics.values():
        if not rules_of_topic(image.settings, topic.name, defaults).is_unclean_election_enabled:
            continue
        for partition in topic.partitions:
            if partition.leader == NO_LEADER:
                changes.change(topic, partition)
    return Decision([*changes.records], len(changes.records))
