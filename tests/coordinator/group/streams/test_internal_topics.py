"""Partition counts of internal topics, and topologies that do not fit their topics."""

from __future__ import annotations

import pytest

from minikafka.coordinator.group.streams.internal_topics import (
    Configured,
    InvalidTopologyError,
    Status,
    configure,
)
from minikafka.coordinator.group.streams.topology import requested, stored
from tests.coordinator.group.consumer.consumer_shell import World
from tests.coordinator.group.streams.streams_shell import Subtopology, Topology, subtopology


def configured(world: World, *subtopologies: Subtopology) -> Configured:
    topology = Topology(epoch=0, subtopologies=list(subtopologies))
    return configure(stored(requested(topology)), world)


def wanted(found: Configured) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in found.missing}


def test_a_repartition_topic_is_as_large_as_what_is_written_to_it() -> None:
    found = configured(
        World(small=2, large=5),
        subtopology(0, ["small", "large"], sinks=["first"]),
        subtopology(1, repartitions=[("first", 0)], sinks=["second"]),
        subtopology(2, repartitions=[("second", 0)], changelogs=["store"]),
    )
    assert wanted(found) == {"first": 5, "second": 5, "store": 5}
    assert found.task_counts == {"0": 5, "1": 5, "2": 5}


def test_topics_are_decided_whatever_their_order() -> None:
    found = configured(
        World(input=3),
        subtopology(0, repartitions=[("a", 0)], sinks=["z"]),
        subtopology(1, repartitions=[("b", 0)], sinks=["a"]),
        subtopology(2, ["input"], sinks=["b"]),
        subtopology(3, repartitions=[("z", 0)]),
    )
    assert wanted(found) == {"a": 3, "b": 3, "z": 3}


def test_the_application_may_say_how_large_a_repartition_topic_is() -> None:
    found = configured(
        World(input=3),
        subtopology(0, ["input"], sinks=["by-key"]),
        subtopology(1, repartitions=[("by-key", 7)], changelogs=["store"]),
    )
    assert wanted(found) == {"by-key": 7, "store": 7}
    assert found.task_counts == {"0": 3, "1": 7}


def test_a_repartition_topic_is_as_large_as_what_it_is_joined_with() -> None:
    found = configured(
        World(input=3, table=8),
        subtopology(0, ["input"], sinks=["by-key"]),
        subtopology(1, ["table"], repartitions=[("by-key", 0)], copartitioned=[([0], [0])]),
    )
    assert wanted(found) == {"by-key": 8}


def test_joined_repartition_topics_are_equally_large() -> None:
    found = configured(
        World(small=3, large=8),
        subtopology(0, ["small"], sinks=["left"]),
        subtopology(1, ["large"], sinks=["right"]),
        subtopology(2, repartitions=[("left", 0), ("right", 0)], copartitioned=[([], [0, 1])]),
    )
    assert wanted(found) == {"left": 8, "right": 8}
    fixed = configured(
        World(small=3, large=8),
        subtopology(0, ["small"], sinks=["left"]),
        subtopology(1, ["large"], sinks=["right"]),
        subtopology(2, repartitions=[("left", 4), ("right", 0)], copartitioned=[([], [0, 1])]),
    )
    assert wanted(fixed) == {"left": 4, "right": 4}


@pytest.mark.parametrize(
    ("sources", "repartitions", "groups"),
    [
        (["small", "large"], [], [([0, 1], [])]),
        (["small"], [("by-key", 5)], [([0], [0])]),
        ([], [("by-key", 5), ("by-name", 6)], [([], [0, 1])]),
    ],
)
def test_topics_that_are_joined_must_be_equally_large(
    sources: list[str],
    repartitions: list[tuple[str, int]],
    groups: list[tuple[list[int], list[int]]],
) -> None:
    one = subtopology(0, sources, repartitions=repartitions, copartitioned=groups)
    found = configured(World(small=2, large=4), one)
    assert found.problem is not None
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert found.task_counts == {}


def test_topics_that_exist_are_not_made() -> None:
    one = subtopology(0, ["input"], changelogs=["old", "new"])
    found = configured(World(input=2, old=2), one)
    assert wanted(found) == {"new": 2}
    assert configured(World(input=2, old=2, new=2), one).is_ready


def test_a_source_topic_may_be_the_changelog() -> None:
    assert configured(World(table=2), subtopology(0, ["table"], changelogs=["table"])).is_ready


def test_many_missing_topics_are_not_all_named() -> None:
    found = configured(World(), subtopology(0, [f"t{number:02}" for number in range(30)]))
    assert found.problem is not None
    assert found.problem.detail.endswith("t09 and 20 more are missing.")


@pytest.mark.parametrize(
    "one",
    [
        subtopology(0),
        subtopology(0, repartitions=[("nobody-writes-it", 0)]),
        subtopology(0, repartitions=[("own", 0)], sinks=["own"]),
    ],
)
def test_some_topologies_fit_no_topics(one: Subtopology) -> None:
    with pytest.raises(InvalidTopologyError):
        configured(World(), one)
