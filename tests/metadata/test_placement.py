"""Where replicas go: evenly, over racks, and not on brokers that are away."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata.decision import Refusal
from minikafka.metadata.image import TopicImage
from minikafka.metadata.placement import Placement, Replicas, place, spread
from minikafka.metadata.records import NO_LEADER
from minikafka.metadata.topics import Growth, create_topic, create_topics, grow_topics
from minikafka.protocol.errors import ErrorCode
from tests.metadata.cluster import Cluster, replicas, topic_ids, wanted


def placed(count: int, factor: int, placement: Placement, first: int = 0) -> list[Replicas]:
    result = spread(count, factor, placement, first)
    assert not isinstance(result, Refusal), result
    assert len(result) == count
    assert all(len(set(one)) == len(one) == factor for one in result)
    return result


def brokers(count: int, **more: Any) -> Placement:
    return Placement(tuple(range(count)), 1, 1)._replace(**more)


COUNTS = st.integers(1, 8)


@given(COUNTS, st.integers(0, 1000), st.integers(1, 4))
def test_leaders_are_even_wherever_the_start_is(size: int, start: int, rounds: int) -> None:
    made = placed(size * rounds, 1, brokers(size, start=start))
    assert set(Counter(one[0] for one in made).values()) == {rounds}


@given(st.integers(2, 7), st.integers(0, 1000), st.data())
def test_the_followers_of_a_broker_are_all_others_alike(
    size: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(2, size))
    made = placed(size * (size - 1), factor, brokers(size, start=start))
    followers = Counter((one[0], other) for one in made for other in one[1:])
    assert set(followers.values()) == {factor - 1}
    assert len(followers) == size * (size - 1)


def test_not_every_topic_begins_at_the_same_broker() -> None:
    made = [placed(1, 2, brokers(3, start=start)) for start in range(6)]
    assert made == [[(0, 1)], [(1, 2)], [(2, 0)], [(0, 2)], [(1, 0)], [(2, 1)]]


@given(COUNTS, st.integers(0, 100), st.integers(1, 10), st.integers(0, 10))
def test_added_partitions_go_on_where_the_others_would_have(
    size: int, start: int, count: int, more: int
) -> None:
    placement = brokers(size, start=start)
    whole = placed(count + more, size, placement)
    assert placed(more, size, placement, first=count) == whole[count:]


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9),
    st.integers(0, 100),
    st.data(),
)
def test_a_partition_is_in_as_many_racks_as_possible_and_evenly(
    of_brokers: list[str | None], start: int, data: st.DataObject
) -> None:
    racks = {number: rack for number, rack in enumerate(of_brokers) if rack is not None}
    factor = data.draw(st.integers(1, len(of_brokers)))
    sizes = Counter(of_brokers)
    placement = brokers(len(of_brokers), racks=racks, start=start)
    for one in placed(2 * len(of_brokers), factor, placement):
        used = Counter(racks.get(broker) for broker in one)
        assert len(used) == (min(factor, len(sizes)) if racks else 1)
        for rack, times in used.items():
            # A rack has more than another only where the other is full.
            assert all(times <= used[other] + 1 for other in sizes if used[other] < sizes[other]), (
                rack,
                used,
            )


def test_neighbours_are_in_different_racks() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    made = placed(4, 2, brokers(4, racks=racks))
    assert made == [(0, 2), (2, 1), (1, 3), (3, 0)]


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 100), st.data())
def test_brokers_that_are_away_get_replicas_only_when_the_others_are_not_enough(
    active: int, away: int, start: int, data: st.DataObject
) -> None:
    total = active + away
    inactive = frozenset(data.draw(st.permutations(range(total)))[:away])
    racks = data.draw(st.dictionaries(st.integers(0, total - 1), st.sampled_from("ab")))
    factor = data.draw(st.integers(1, total))
    placement = brokers(total, inactive=inactive, racks=racks, start=start)
    for one in placed(2 * total, factor, placement):
        assert one[0] not in inactive
        assert len(inactive.intersection(one)) == max(0, factor - active)


def test_without_a_broker_that_serves_nothing_is_placed() -> None:
    result = place(1, 1, brokers(2, inactive=frozenset({0, 1})))
    assert isinstance(result, Refusal)
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "fenced" in result.message


# --- topics on brokers that are away -----------------------------------------------------------


def made(topic: TopicImage | Refusal) -> TopicImage:
    assert isinstance(topic, TopicImage), topic
    return topic


def test_a_placement_knows_the_brokers_of_the_image() -> None:
    cluster = Cluster(3)
    cluster.fence(2)
    registration = cluster.image.brokers[3]._replace(rack="r")
    cluster.image.brokers[3] = registration
    assert Placement.of(cluster.image, 4, 2, start=9) == Placement(
        (1, 2, 3), 4, 2, inactive=frozenset({2}), racks={3: "r"}, start=9
    )


def test_new_partitions_are_in_sync_on_active_brokers() -> None:
    cluster = Cluster(3)
    cluster.fence(2)
    topic = made(
        cluster.commit(
            create_topic(cluster.image, wanted("t", 2, 3), cluster.placement(start=1), topic_ids())
        )
    )
    assert replicas(topic) == [(3, 1, 2), (1, 3, 2)]
    assert [one.in_sync_replicas for one in topic.partitions] == [(3, 1), (1, 3)]
    assert [one.leader for one in topic.partitions] == [3, 1]
    cluster = Cluster(3)
    cluster.fence(2)
    topic = cluster.topic("u", [2, 3])
    assert (topic.partitions[0].in_sync_replicas, topic.partitions[0].leader) == ((3,), 3)


def test_a_partition_for_brokers_that_are_all_away_is_refused() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 3])
    cluster.fence(1, 2)
    ((_, result),) = create_topics(
        cluster.image,
        [wanted("u", assignments=[(0, [1, 3]), (1, [1, 2])])],
        cluster.placement(),
        topic_ids(),
    ).result
    growth = Growth("t", 2, [[1, 2]])
    ((_, refusal),) = grow_topics(cluster.image, [growth], cluster.placement()).result
    for one in (result, refusal):
        assert isinstance(one, Refusal)
        assert one.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_added_partitions_have_the_factor_of_the_topic_without_leaving_replicas() -> None:
    cluster = Cluster(4)
    cluster.topic("t", [4, 3])
    cluster.reassign(4, 1)
    placement = cluster.placement(start=77)
    assert cluster.commit(grow_topics(cluster.image, [Growth("t", 3, None)], placement)) == [
        ("t", None)
    ]
    assert [one.replicas for one in cluster.image.topics["t"].partitions[1:]] == [(1, 3), (2, 4)]
    assert all(one.leader != NO_LEADER for one in cluster.image.topics["t"].partitions)


@pytest.mark.parametrize("factor", [0, 4])
def test_added_partitions_cannot_have_more_replicas_than_there_are_brokers(factor: int) -> None:
    result = spread(1, factor, brokers(3))
    assert isinstance(result, Refusal)
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
