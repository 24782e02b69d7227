"""The placement of replicas on brokers.

The brokers form a circle, with neighbours in different racks as far as possible. Each partition
begins one broker after the previous one, and its other replicas follow the first around the circle,
at another distance in each round, so that the partitions of a failed broker are taken over by all
others and not by its neighbour; racks that the partition is not in yet come first. Brokers that are
fenced or about to stop are used only if there are too few others, and never for the first replica.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .decision import Refusal
from .image import MetadataImage

PARTITIONS_PER_TOPIC_MAX = 100_000

Replicas = tuple[int, ...]
"""Node ids of a partition's replicas; the first is the preferred leader."""


class Placement(NamedTuple):
    """What a controller knows of the cluster when it places replicas.

    Attributes:
        brokers: node ids of the registered brokers, in order.
        partitions_default: num.partitions.
        replication_factor_default: default.replication.factor.
        inactive: those of the brokers that are fenced or shutting down.
        racks: by node id, for the brokers that have one.
        start: where in the circle a new topic begins; random, so that topics begin at different
            brokers.
    """

    brokers: tuple[int, ...]
    partitions_default: int
    replication_factor_default: int
    inactive: frozenset[int] = frozenset()
    racks: Mapping[int, str] = {}
    start: int = 0

    @classmethod
    def of(
        cls,
        image: MetadataImage,
        partitions_default: int,
        replication_factor_default: int,
        start: int,
    ) -> Placement:
        """For the brokers of an image."""
        brokers = sorted(image.brokers.values())
        return cls(
            tuple(one.broker_id for one in brokers),
            partitions_default,
            replication_factor_default,
            frozenset(one.broker_id for one in brokers if not one.is_active),
            {one.broker_id: one.rack for one in brokers if one.rack is not None},
            start,
        )

    def active(self, replicas: Replicas) -> Replicas:
        """The replicas that can lead and be in sync."""
        return tuple(one for one in replicas if one not in self.inactive)


def place(count: int, factor: int, placement: Placement) -> list[Replicas] | Refusal:
    """Place the partitions of a new topic; a count or factor of -1 is the default."""
    if count == -1:
        count = placement.partitions_default
    if not 0 < count <= PARTITIONS_PER_TOPIC_MAX:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to an invalid value {count}; "
            f"it must be between 1 and {PARTITIONS_PER_TOPIC_MAX}.",
        )
    if factor == -1:
        factor = placement.replication_factor_default
    return spread(count, factor, placement)


def spread(
    count: int,
    factor: int,
    placement: Placement,
    first: int = 0,
    first_leader: int | None = None,
) -> list[Replicas] | Refusal:
    """Give ``count`` partitions ``factor`` replicas each.

    Args:
        count: of partitions.
        factor: replicas of each.
        placement: the brokers.
        first: the number of the first partition, so that added partitions continue where the
            others ended.
        first_leader: the preferred leader of partition 0, if it exists; replaces the placement's
            ``start`` if it is active.

    Returns:
        The replicas of each partition, or INVALID_REPLICATION_FACTOR.
    """
    known = len(placement.brokers)
    if not 0 < factor <= known:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {factor} is not possible with {known} registered "
            f"broker(s); use a number from 1 to {known}, or -1 for the default.",
        )
    circle = _circle(placement.active(placement.brokers), placement.racks)
    if not circle:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"No replica can be placed: all {known} registered broker(s) are fenced or shutting "
            "down; try again when one serves.",
        )
    reserve = _circle(sorted(placement.inactive), placement.racks)
    start = circle.index(first_leader) if first_leader in circle else placement.start
    return [
        _one_partition(start + first + number, factor, circle, reserve, placement.racks)
        for number in range(count)
    ]


def _circle(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """Order brokers so that neighbours are in different racks, if possible."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker), []).append(broker)
    rounds = zip_longest(*by_rack.values())
    return [broker for one_round in rounds for broker in one_round if broker is not None]


def _one_partition(
    number: int, factor: int, circle: list[int], reserve: list[int], racks: Mapping[int, str]
) -> Replicas:
    size = len(circle)
    turn, place_of_first = divmod(number, size)
    first = circle[place_of_first]
    if factor == 1:
        return (first,)
    after = [circle[(place_of_first + step) % size] for step in range(1, size)]
    shift = turn % len(after) if after else 0
    followers = _spread_over_racks([*after[shift:], *after[:shift]], [first], racks)
    followers += _spread_over_racks(reserve, [first, *followers], racks)
    return (first, *followers[: factor - 1])


def _spread_over_racks(
    brokers: Sequence[int], taken: Sequence[int], racks: Mapping[int, str]
) -> list[int]:
    """Brokers of racks with few replicas first, otherwise in the given order."""
    if not racks:
        return list(brokers)
    times = Counter(racks.get(one) for one in taken)
    ranks: dict[int, int] = {}
    for broker in brokers:
        rack = racks.get(broker)
        ranks[broker] = times[rack]
        times[rack] += 1
    return sorted(brokers, key=ranks.__getitem__)


def check_numbering(assignments: Mapping[int, Sequence[int]], given: int) -> Refusal | None:
    """Check the partition numbers of an explicit assignment.

    Args:
        assignments: replicas by partition number.
        given: how many the request had; more than in the mapping if numbers repeat.
    """
    if given > PARTITIONS_PER_TOPIC_MAX:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"{given} partitions are more than the {PARTITIONS_PER_TOPIC_MAX} a topic may have.",
        )
    if len(assignments) != given:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{given} assignments name only {len(assignments)} different partitions.",
        )
    missing = next((number for number in range(given) if number not in assignments), None)
    if missing is not None:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partition {missing} has no assignment; partitions are numbered from 0 without gaps.",
        )
    return None


def check_replicas(
    assignments: Sequence[Sequence[int]], brokers: Sequence[int], factor: int | None = None
) -> Refusal | None:
    """Check explicit replica lists: they have one length and name registered brokers.

    Args:
        assignments: replicas of each partition, in order.
        brokers: node ids that are registered.
        factor: the length that each must have; None for that of the first.
    """
    registered = set(brokers)
    for number, nodes in enumerate(assignments):
        if factor is None:
            factor = len(nodes)
        problem = _replicas_problem(nodes, registered, factor)
        if problem is not None:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Assignment number {number}: {problem}."
            )
    return None


def _replicas_problem(nodes: Sequence[int], registered: set[int], factor: int) -> str | None:
    if not nodes:
        return "the replica list is empty"
    if len(set(nodes)) != len(nodes):
        return "the replica list names a broker twice"
    if len(nodes) != factor:
        return f"it has {len(nodes)} replica(s), the other partitions have {factor}"
    unknown = next((node for node in nodes if node not in registered), None)
    return None if unknown is None else f"broker {unknown} is not registered"
