"""The server-side assignors: all is assigned once, evenly, and as little as possible moves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.coordinator.group.consumer.assignors import (
    ASSIGNORS,
    MemberSpec,
    RangeAssignor,
    UniformAssignor,
)
from minikafka.coordinator.group.consumer.partitions import Partitions

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def spec(
    *topics: bytes, current: Partitions | None = None, instance: str | None = None
) -> MemberSpec:
    return MemberSpec(instance, None, frozenset(topics), current or {})


def sizes(target: Mapping[str, Partitions]) -> dict[str, int]:
    return {one: sum(map(len, partitions.values())) for one, partitions in target.items()}


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, MemberSpec], dict[bytes, int]]:
    """Members whose current partitions may be anything: too many, deleted, taken by two."""
    counts = draw(st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 7), min_size=1))
    held = st.dictionaries(
        st.sampled_from([A, B, C, b"gone" * 4]),
        st.frozensets(st.integers(0, 8), min_size=1),
        max_size=3,
    )
    names = draw(st.lists(st.sampled_from("PQRST"), min_size=1, unique=True))
    is_alike = draw(st.booleans())
    members: dict[str, MemberSpec] = {}
    for name in names:
        topics = draw(st.frozensets(st.sampled_from(sorted(counts)), min_size=1))
        read = frozenset(counts) if is_alike else topics
        members[name] = MemberSpec(draw(st.none() | st.just(name)), None, read, draw(held))
    read_topics = frozenset[bytes]().union(*(one.topics for one in members.values()))
    return members, {topic: count for topic, count in counts.items() if topic in read_topics}


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(group=groups())
def test_each_partition_goes_to_one_of_its_readers(
    name: str, group: tuple[dict[str, MemberSpec], dict[bytes, int]]
) -> None:
    members, counts = group
    target = ASSIGNORS[name].assign(members, counts)
    assert target.keys() == members.keys()
    assigned = [
        (topic, index)
        for member, partitions in target.items()
        for topic, indexes in partitions.items()
        for index in indexes
        if topic in members[member].topics
    ]
    assert sorted(assigned) == sorted((t, i) for t, n in counts.items() for i in range(n))
    assert sum(sizes(target).values()) == len(assigned)
    assert all(indexes for one in target.values() for indexes in one.values())
    assert ASSIGNORS[name].assign(members, counts) == target


@given(group=groups())
def test_uniform_cannot_be_made_more_even(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    target = UniformAssignor().assign(members, counts)
    load = sizes(target)
    for member, partitions in target.items():
        for topic in partitions:
            readers = [one for one in members if topic in members[one].topics]
            assert load[member] - min(load[one] for one in readers) < 2


@given(group=groups())
def test_uniform_moves_nothing_the_second_time(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    target = UniformAssignor().assign(members, counts)
    again = {one: spec_._replace(current=target[one]) for one, spec_ in members.items()}
    assert UniformAssignor().assign(again, counts) == target


def test_uniform_takes_from_the_members_that_have_most() -> None:
    everything = {A: frozenset(range(6))}
    members = {"P": spec(A, current=everything), "Q": spec(A), "R": spec(A)}
    target = UniformAssignor().assign(members, {A: 6})
    assert sizes(target) == {"P": 2, "Q": 2, "R": 2}
    assert target["P"][A] < everything[A]


def test_uniform_keeps_the_members_that_may_have_one_more() -> None:
    current = {"P": {A: frozenset({0, 1})}, "Q": {A: frozenset({2, 3, 4})}}
    members = {one: spec(A, current=held) for one, held in current.items()}
    assert UniformAssignor().assign(members, {A: 5}) == current


def test_range_gives_members_the_same_partitions_of_equal_topics() -> None:
    members = {"Q": spec(A, B, C), "P": spec(A, B, C)}
    target = RangeAssignor().assign(members, {A: 5, B: 5, C: 1})
    assert target["P"] == {A: frozenset({0, 1, 2}), B: frozenset({0, 1, 2}), C: frozenset({0})}
    assert target["Q"] == {A: frozenset({3, 4}), B: frozenset({3, 4})}


def test_range_sorts_static_members_by_instance_id_and_first() -> None:
    members = {"P": spec(A), "Y": spec(A, instance="2"), "Z": spec(A, instance="1")}
    target = RangeAssignor().assign(members, {A: 3})
    first = {one: min(partitions[A]) for one, partitions in target.items()}
    assert first == {"Z": 0, "Y": 1, "P": 2}


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_nobody_gets_nothing(name: str) -> None:
    assert ASSIGNORS[name].assign({}, {}) == {}
    assert ASSIGNORS[name].assign({"P": spec()}, {}) == {"P": {}}


def test_a_large_group_of_different_subscriptions_is_even() -> None:
    """A thousand members, ten thousand partitions: done in one turn of the event loop."""
    topics = [bytes([number]) * 16 for number in range(10)]
    members = {f"m{number}": spec(*topics[: 9 + number % 2]) for number in range(1000)}
    target = UniformAssignor().assign(members, dict.fromkeys(topics, 1000))
    assert set(sizes(target).values()) == {10}
    fewer = {one: members[one]._replace(current=target[one]) for one in sorted(members)[:500]}
    again = UniformAssignor().assign(fewer, dict.fromkeys(topics, 1000))
    assert set(sizes(again).values()) == {20}
    assert all(target[one][t] <= again[one][t] for one in fewer for t in target[one])
