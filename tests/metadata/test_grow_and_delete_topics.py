"""Adding partitions and deleting topics, many in one request."""

import pytest

from minikafka.metadata.image import MetadataImage
from minikafka.metadata.placement import PARTITIONS_PER_TOPIC_MAX
from minikafka.metadata.topics import (
    PARTITIONS_PER_REQUEST_MAX,
    Growth,
    TopicReference,
    create_topics,
    delete_topics,
    grow_topics,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from tests.metadata.cluster import THREE_BROKERS, replay, replicas, topic_ids, wanted


@pytest.fixture
def image() -> MetadataImage:
    """Topics `a` (id 1, 2 partitions) and `b` (id 2, 1 partition), two replicas each."""
    image = MetadataImage()
    topics = [wanted("a", 2, 2), wanted("b", 1, 2)]
    replay(image, create_topics(image, topics, THREE_BROKERS, topic_ids()))
    return image


def grow(image: MetadataImage, *growths: Growth) -> dict[str, ErrorCode]:
    decision = grow_topics(image, growths, THREE_BROKERS)
    replay(image, decision)
    assert len(dict(decision.result)) == len(decision.result)
    return {
        name: ErrorCode.NONE if refusal is None else refusal.error_code
        for name, refusal in decision.result
    }


def test_added_partitions_go_on_where_the_others_ended(image: MetadataImage) -> None:
    assert grow(image, Growth("a", 5, None)) == {"a": ErrorCode.NONE}
    assert replicas(image.topics["a"]) == [(1, 2), (2, 3), (3, 1), (1, 3), (2, 1)]


def test_added_partitions_can_be_assigned(image: MetadataImage) -> None:
    assert grow(image, Growth("b", 3, [[3, 2], [2, 1]])) == {"b": ErrorCode.NONE}
    assert replicas(image.topics["b"]) == [(1, 2), (3, 2), (2, 1)]


@pytest.mark.parametrize(
    ("growth", "code"),
    [
        (Growth("c", 2, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Growth("a", 2, None), ErrorCode.INVALID_PARTITIONS),
        (Growth("a", 1, None), ErrorCode.INVALID_PARTITIONS),
        (Growth("a", -1, None), ErrorCode.INVALID_PARTITIONS),
        (Growth("a", PARTITIONS_PER_TOPIC_MAX + 1, None), ErrorCode.INVALID_PARTITIONS),
        (Growth("a", PARTITIONS_PER_TOPIC_MAX, None), ErrorCode.POLICY_VIOLATION),
        (Growth("a", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Growth("a", 3, [[1, 2], [2, 3]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Growth("a", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Growth("a", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Growth("a", 3, [[1, 7]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Growth("a", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_impossible_growth_is_refused(
    image: MetadataImage, growth: Growth, code: ErrorCode
) -> None:
    before = list(image.records())
    assert grow(image, growth) == {growth.name: code}
    assert list(image.records()) == before


def test_growing_does_not_need_lost_brokers_unless_the_factor_does(image: MetadataImage) -> None:
    fewer = THREE_BROKERS._replace(brokers=(1,))
    ((_, refusal),) = grow_topics(image, [Growth("a", 3, None)], fewer).result
    assert refusal is not None
    assert refusal.error_code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_is_grown_once_in_a_request(image: MetadataImage) -> None:
    assert grow(image, Growth("a", 3, None), Growth("b", 2, None), Growth("a", 4, None)) == {
        "a": ErrorCode.INVALID_REQUEST,
        "b": ErrorCode.NONE,
    }
    assert (len(image.topics["a"].partitions), len(image.topics["b"].partitions)) == (2, 2)


def test_the_limit_of_one_request_counts_all_its_topics(image: MetadataImage) -> None:
    half = PARTITIONS_PER_REQUEST_MAX // 2
    outcome = grow(image, Growth("a", 2 + half, None), Growth("b", 2 + half, None))
    assert outcome == {"a": ErrorCode.NONE, "b": ErrorCode.POLICY_VIOLATION}


# --- delete ------------------------------------------------------------------------------------

A_ID = (1).to_bytes(16, "big")
B_ID = (2).to_bytes(16, "big")
NO_ID = (9).to_bytes(16, "big")
Outcome = list[tuple[str | None, bytes, ErrorCode]]


def delete(image: MetadataImage, *references: TopicReference) -> Outcome:
    decision = delete_topics(image, references)
    replay(image, decision)
    return [
        (name, topic_id, ErrorCode.NONE if refusal is None else refusal.error_code)
        for name, topic_id, refusal in decision.result
    ]


def test_topics_are_deleted_by_name_and_by_id(image: MetadataImage) -> None:
    outcome = delete(image, TopicReference("a"), TopicReference(None, B_ID))
    assert outcome == [("a", A_ID, ErrorCode.NONE), ("b", B_ID, ErrorCode.NONE)]
    assert image.topics == {}


def test_topics_that_are_not_there_do_not_stop_the_others(image: MetadataImage) -> None:
    outcome = delete(image, TopicReference("c"), TopicReference(None, NO_ID), TopicReference("a"))
    assert outcome == [
        ("c", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, NO_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        ("a", A_ID, ErrorCode.NONE),
    ]
    assert set(image.topics) == {"b"}


@pytest.mark.parametrize(
    ("references", "outcome"),
    [
        ([TopicReference("a"), TopicReference("a")], [("a", ZERO_UUID, ErrorCode.INVALID_REQUEST)]),
        (
            [TopicReference(None, A_ID), TopicReference(None, A_ID)],
            [(None, A_ID, ErrorCode.INVALID_REQUEST)],
        ),
        ([TopicReference(None)], [(None, ZERO_UUID, ErrorCode.INVALID_REQUEST)]),
        ([TopicReference("a", A_ID)], [("a", A_ID, ErrorCode.INVALID_REQUEST)]),
        (
            [TopicReference("a"), TopicReference(None, A_ID)],
            [("a", A_ID, ErrorCode.INVALID_REQUEST)],
        ),
        (
            [TopicReference(None, A_ID), TopicReference("a")],
            [("a", A_ID, ErrorCode.INVALID_REQUEST)],
        ),
    ],
)
def test_a_topic_that_is_meant_twice_or_unclearly_stays(
    image: MetadataImage, references: list[TopicReference], outcome: Outcome
) -> None:
    assert delete(image, *references) == outcome
    assert set(image.topics) == {"a", "b"}


def test_a_repeated_name_does_not_keep_the_id_from_its_answer(image: MetadataImage) -> None:
    outcome = delete(image, TopicReference("a"), TopicReference("a"), TopicReference(None, A_ID))
    assert outcome == [("a", ZERO_UUID, ErrorCode.INVALID_REQUEST), ("a", A_ID, ErrorCode.NONE)]
