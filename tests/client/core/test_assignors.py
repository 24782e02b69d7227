"""The assignors: Java's rules on examples, and what must hold on everything."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.core.assignors.assignor import Assignment
from minikafka_client.core.assignors.registry import (
    ASSIGNORS,
    AssignorName,
    choose_assignors,
    is_cooperative,
)
from minikafka_client.core.consumer_protocol import Subscription
from minikafka_client.types import TopicPartition

ALL_NAMES = cast("list[AssignorName]", sorted(ASSIGNORS))
STICKY_NAMES = ["sticky", "cooperative-sticky"]


def assigned(
    name: str, counts: dict[str, int], members: dict[str, Subscription]
) -> dict[str, list[str]]:
    """The assignment, with partitions as "t0"."""
    result = ASSIGNORS[name].assign(counts, members)
    return {member: [f"{t}{p}" for t, p in partitions] for member, partitions in result.items()}


def subscribed(**topics: str) -> dict[str, Subscription]:
    return {member: Subscription(names.split()) for member, names in topics.items()}


# --- Java's examples (from the javadoc of the assignors) -----------------------------------------


def test_range_gives_the_first_members_one_more_of_every_topic() -> None:
    counts = {"t": 3, "u": 3}
    assert assigned("range", counts, subscribed(c0="t u", c1="t u")) == {
        "c0": ["t0", "t1", "u0", "u1"],
        "c1": ["t2", "u2"],
    }


def test_round_robin_deals_over_all_topics() -> None:
    counts = {"t": 3, "u": 3}
    assert assigned("roundrobin", counts, subscribed(c0="t u", c1="t u")) == {
        "c0": ["t0", "t2", "u1"],
        "c1": ["t1", "u0", "u2"],
    }


def test_round_robin_passes_by_who_does_not_want_the_topic() -> None:
    counts = {"t0-": 1, "t1-": 2, "t2-": 3}
    members = subscribed(c0="t0-", c1="t0- t1-", c2="t0- t1- t2-")
    assert assigned("roundrobin", counts, members) == {
        "c0": ["t0-0"],
        "c1": ["t1-0"],
        "c2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


def test_sticky_balances_where_round_robin_cannot() -> None:
    counts = {"t0-": 1, "t1-": 2, "t2-": 3}
    members = subscribed(c0="t0-", c1="t0- t1-", c2="t0- t1- t2-")
    assert assigned("sticky", counts, members) == {
        "c0": ["t0-0"],
        "c1": ["t1-0", "t1-1"],
        "c2": ["t2-0", "t2-1", "t2-2"],
    }


def test_static_members_come_first_in_order_of_their_names() -> None:
    members = subscribed(a="t", z="t", y="t")
    members["z"].group_instance_id = "1"
    members["y"].group_instance_id = "2"
    assert assigned("range", {"t": 3}, members) == {"z": ["t0"], "y": ["t1"], "a": ["t2"]}


# --- sticking ------------------------------------------------------------------------------------


def again(name: str, before: Assignment, generation: int = 1) -> dict[str, Subscription]:
    """What members say when they join again with what they were assigned."""
    assignor = ASSIGNORS[name]
    return {
        member: Subscription(
            ["t"],
            owned_partitions=partitions if assignor.is_cooperative else (),
            generation_id=generation if assignor.is_cooperative else -1,
            user_data=assignor.user_data(partitions, generation),
        )
        for member, partitions in before.items()
    }


@pytest.mark.parametrize("name", STICKY_NAMES)
def test_who_stays_keeps_what_it_has_when_another_leaves(name: str) -> None:
    before = ASSIGNORS[name].assign({"t": 9}, subscribed(a="t", b="t", c="t"))
    members = again(name, before)
    del members["b"]
    after = ASSIGNORS[name].assign({"t": 9}, members)
    assert set(after["a"]) > set(before["a"])
    assert set(after["c"]) > set(before["c"])


def test_sticky_moves_only_what_a_new_member_needs() -> None:
    before = ASSIGNORS["sticky"].assign({"t": 9}, subscribed(a="t", b="t"))
    members = again("sticky", before) | subscribed(c="t")
    after = ASSIGNORS["sticky"].assign({"t": 9}, members)
    assert [len(after[member]) for member in "abc"] == [3, 3, 3]
    assert set(after["a"]) < set(before["a"])
    assert set(after["b"]) < set(before["b"])


def test_cooperative_sticky_leaves_out_what_still_has_an_owner() -> None:
    before = ASSIGNORS["cooperative-sticky"].assign({"t": 4}, subscribed(a="t"))
    members = again("cooperative-sticky", before) | subscribed(b="t")
    first = ASSIGNORS["cooperative-sticky"].assign({"t": 4}, members)
    assert (len(first["a"]), first["b"]) == (2, [])
    members = again("cooperative-sticky", first, 2)
    second = ASSIGNORS["cooperative-sticky"].assign({"t": 4}, members)
    assert second["a"] == first["a"]
    assert sorted(second["a"] + second["b"]) == [TopicPartition("t", p) for p in range(4)]


@pytest.mark.parametrize("name", STICKY_NAMES)
def test_the_later_generation_is_believed(name: str) -> None:
    claim: Assignment = {"slept": [TopicPartition("t", 0)]}
    members = again(name, claim, 3) | again(name, {"awake": [TopicPartition("t", 0)]}, 4)
    members |= again(name, {"other": [TopicPartition("t", 1)]}, 4)
    after = ASSIGNORS[name].assign({"t": 3}, members)
    assert TopicPartition("t", 0) in after["awake"]


@pytest.mark.parametrize("name", STICKY_NAMES)
def test_two_claims_of_one_generation_are_both_dropped(name: str) -> None:
    claim = [TopicPartition("t", 0)]
    members = again(name, {"a": claim, "b": claim})
    after = ASSIGNORS[name].assign({"t": 1}, members)
    if name == "sticky":
        assert sorted(after["a"] + after["b"]) == claim
    else:
        assert len(after["a"] + after["b"]) <= 1


def test_what_is_deleted_or_no_longer_wanted_is_not_kept() -> None:
    members = again("sticky", {"a": [TopicPartition("t", 9), TopicPartition("u", 0)]})
    assert assigned("sticky", {"t": 1, "u": 1}, members) == {"a": ["t0"]}


def test_old_and_broken_user_data_is_survived() -> None:
    version_0 = b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\1"
    members = {
        "a": Subscription(["t"], user_data=version_0),
        "b": Subscription(["t"], user_data=b"?"),
        "c": Subscription(["t"], owned_partitions=[TopicPartition("t", 2)], generation_id=4),
    }
    assert assigned("sticky", {"t": 3}, members) == {"a": ["t1"], "b": ["t0"], "c": ["t2"]}


def test_the_generation_of_an_old_cooperative_member_is_in_its_user_data() -> None:
    claim = [TopicPartition("t", 0)]
    members = {
        "a": Subscription(["t"], owned_partitions=claim, user_data=b"\0\0\0\5"),
        "b": Subscription(["t"], owned_partitions=claim, user_data=b"\0\0\0\6"),
        "c": Subscription(["t"], owned_partitions=[], user_data=b"?"),
    }
    after = ASSIGNORS["cooperative-sticky"].assign({"t": 1}, members)
    assert after["b"] == claim


# --- everything ----------------------------------------------------------------------------------

TOPICS = ("t", "u", "v")
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})
WANTED = st.lists(st.sampled_from((*TOPICS, "missing")), max_size=5)
MEMBERS = st.dictionaries(st.sampled_from("abcdef"), WANTED, min_size=1)
OWNED = st.lists(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 8)), max_size=9)


@pytest.mark.parametrize("name", ALL_NAMES)
@given(counts=COUNTS, wanted=MEMBERS, draw=st.data())
def test_every_partition_that_is_wanted_has_one_owner_that_wants_it(
    name: str, counts: dict[str, int], wanted: dict[str, list[str]], draw: st.DataObject
) -> None:
    assignor = ASSIGNORS[name]
    members: dict[str, Subscription] = {}
    for member, topics in wanted.items():
        had, generation = draw.draw(OWNED), draw.draw(st.integers(-1, 3))
        members[member] = Subscription(
            topics,
            owned_partitions=had if assignor.is_cooperative else (),
            generation_id=generation,
            user_data=assignor.user_data(had, generation),
        )
    after = assignor.assign(counts, members)
    assert after.keys() == members.keys()
    times = Counter(partition for partitions in after.values() for partition in partitions)
    assert all(count == 1 for count in times.values())
    for member, partitions in after.items():
        assert {topic for topic, _ in partitions} <= set(wanted[member])
    available = {
        TopicPartition(topic, index)
        for topics in wanted.values()
        for topic in topics
        for index in range(counts.get(topic, 0))
    }
    if assignor.is_cooperative:
        moving = {p for each in members.values() for p in each.owned_partitions}
        assert available - moving <= times.keys() <= available
    else:
        assert times.keys() == available


@given(counts=COUNTS, wanted=MEMBERS, draw=st.data())
def test_sticky_is_as_balanced_as_can_be(
    counts: dict[str, int], wanted: dict[str, list[str]], draw: st.DataObject
) -> None:
    members = {
        member: Subscription(topics, user_data=ASSIGNORS["sticky"].user_data(draw.draw(OWNED), 1))
        for member, topics in wanted.items()
    }
    after = ASSIGNORS["sticky"].assign(counts, members)
    for giver, partitions in after.items():
        for topic, _ in partitions:
            for taker in after:
                if topic in wanted[taker]:
                    assert len(after[giver]) - len(after[taker]) < 2


# --- choosing ------------------------------------------------------------------------------------


def test_assignors_are_chosen_by_name_or_brought_along() -> None:
    mine = ASSIGNORS["range"]
    assert choose_assignors(["sticky", mine]) == (ASSIGNORS["sticky"], mine)


def test_an_unknown_assignor_is_named() -> None:
    with pytest.raises(ValueError, match="'best' is unknown"):
        choose_assignors([cast("AssignorName", "best")])
    with pytest.raises(ValueError, match="empty"):
        choose_assignors([])


def test_a_group_is_cooperative_only_if_all_assignors_are() -> None:
    assert is_cooperative(choose_assignors(["cooperative-sticky"]))
    assert not is_cooperative(choose_assignors(["range", "cooperative-sticky"]))
