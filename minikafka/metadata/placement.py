"""Which brokers get the replicas of a partition.

Brokers stand in a circle, neighbours in different racks as far as possible. Partition after
partition begins one broker further, and its other replicas follow the first: round the circle, with
another distance in each round, so that the partitions of a broker that fails are taken over by all
others and not by its neighbour; and first from racks that the partition is not in yet. Brokers that
are fenced or about to stop get replicas only when the others are not enough, and never the first.
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
    """What a controller knows of its cluster when it places replicas.

    Attributes:
        brokers: node ids of the registered brokers, in order.
        partitions_default: num.partitions.
        replication_factor_default: default.replication.factor.
        inactive: those of the brokers that are fenced or shutting down.
        racks: by node id, for the brokers that have one.
        start: where in the circle a new topic begins; a random number, so that not every topic
            begins at the same broker.
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
        """Take the brokers from an image."""
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
        """Those of some replicas that can lead and be in sync."""
        return tuple(one for one in replicas if one not in self.inactive)


def place(count: int, factor: int, placement: Placement) -> list[Replicas] | Refusal:
    """Place the partitions of a new topic; -1 as count or factor asks for the default."""
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
        count: how many partitions.
        factor: replicas of each.
        placement: the brokers.
        first: the number of the first partition, so that added partitions go on where the
            others ended.
        first_leader: the broker that partition 0 prefers, if there is one already; takes the place
            of the placement's ``start`` if it is active.

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
    """Put brokers in an order in which neighbours are in different racks, if possible."""
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
    """Put brokers of racks that have few replicas first, without changing the order otherwise."""
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
    """Say what is wrong with the partition numbers of an explicit assignment.

    Args:
        assignments: replicas by partition number.
        given: how many the request had; more than in the mapping when numbers repeat.
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
    """Say what is wrong with explicit replica lists: every one alike in length, no unknown broker.

    Args:
        assignments: replicas of each partition, in order.
        brokers: node ids that are registered.
        factor: the length that each must have; None takes that of the first.
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
