"""Creating topics: names, placement, settings, and many in one request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata import topics as metadata_topics
from minikafka.metadata.decision import Decision, Refusal
from minikafka.metadata.image import MetadataImage, TopicImage
from minikafka.metadata.placement import PARTITIONS_PER_TOPIC_MAX, Placement
from minikafka.metadata.records import PartitionRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics as create_topics_api
from tests.metadata.cluster import ONE_BROKER, THREE_BROKERS, replay, replicas, topic_ids, wanted


def create(
    topic: create_topics_api.CreatableTopic, placement: Placement = THREE_BROKERS, *existing: str
) -> Decision[TopicImage | Refusal]:
    image = MetadataImage()
    new_id = topic_ids()
    for name in existing:
        replay(image, metadata_topics.create_topic(image, wanted(name), placement, new_id))
    decision = metadata_topics.create_topic(image, topic, placement, new_id)
    if isinstance(decision.result, Refusal):
        assert decision.records == []
    else:
        # What was promised is what the log's records add up to.
        replay(image, decision)
        assert image.topics[topic.name] == decision.result
        assert image.topic_settings(topic.name) == {one.name: one.value for one in topic.configs}
    return decision


def code_of(decision: Decision[TopicImage | Refusal]) -> ErrorCode:
    assert isinstance(decision.result, Refusal)
    assert decision.result.message
    return decision.result.error_code


def test_defaults_are_the_clusters() -> None:
    assert replicas(create(wanted("t")).result) == [(1, 2), (2, 3), (3, 1), (1, 3)]


def test_the_first_replica_leads_and_all_are_in_sync() -> None:
    made = create(wanted("t", 1, 3)).result
    assert isinstance(made, TopicImage)
    assert made.partitions == [PartitionRecord(made.topic_id, 0, (1, 2, 3), (1, 2, 3), 1, 0, 0)]


@given(st.integers(1, 60), st.integers(1, 5), st.integers(5, 9))
def test_replicas_are_spread_evenly(count: int, factor: int, brokers: int) -> None:
    made = create(wanted("t", count, factor), Placement(tuple(range(brokers)), 1, 1)).result
    leaders: dict[int, int] = dict.fromkeys(range(brokers), 0)
    for nodes in replicas(made):
        assert len(set(nodes)) == factor
        leaders[nodes[0]] += 1
    assert max(leaders.values()) - min(leaders.values()) <= 1


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (PARTITIONS_PER_TOPIC_MAX + 1, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_counts_are_refused(partitions: int, factor: int, code: ErrorCode) -> None:
    assert code_of(create(wanted("t", partitions, factor))) is code


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a" * (metadata_topics.TOPIC_NAME_LENGTH_MAX + 1), "a b", "ä", "a/b", "a\x00"],
)
def test_illegal_names_are_refused(name: str) -> None:
    assert code_of(create(wanted(name))) is ErrorCode.INVALID_TOPIC_EXCEPTION


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True))
def test_legal_names_have_no_problem(name: str) -> None:
    assert (metadata_topics.topic_name_problem(name) is None) == (name not in (".", ".."))


def test_the_clusters_own_topic_cannot_be_made() -> None:
    assert code_of(create(wanted("__cluster_metadata"))) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_name_is_used_once() -> None:
    assert code_of(create(wanted("t"), THREE_BROKERS, "t")) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("old", "new"), [("a.b", "a_b"), ("a_b", "a.b"), ("a._", "a__")])
def test_names_that_share_their_metrics_collide(old: str, new: str) -> None:
    assert code_of(create(wanted(new), THREE_BROKERS, old)) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    "settings", [{"no.such": "1"}, {"retention.ms": "x"}, {"retention.ms": None}]
)
def test_wrong_settings_are_refused(settings: dict[str, str | None]) -> None:
    assert code_of(create(wanted("t", settings=settings))) is ErrorCode.INVALID_CONFIG


def test_settings_are_kept_as_given() -> None:
    made = create(wanted("t", settings={"retention.ms": "5", "cleanup.policy": "compact"}))
    assert isinstance(made.result, TopicImage)


def test_an_explicit_assignment_is_followed_in_any_order() -> None:
    made = create(wanted("t", assignments=[(1, [3, 1]), (0, [2, 3])])).result
    assert replicas(made) == [(2, 3), (3, 1)]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("t", 1, -1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (wanted("t", -1, 1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (wanted("t", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [1]), (0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [1, 9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [1]), (1, [1, 2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            wanted("t", assignments=[(n, [1]) for n in range(PARTITIONS_PER_TOPIC_MAX + 1)]),
            ErrorCode.INVALID_PARTITIONS,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
def test_impossible_assignments_are_refused(
    topic: create_topics_api.CreatableTopic, code: ErrorCode
) -> None:
    assert code_of(create(topic)) is code


# --- many at once ------------------------------------------------------------------------------


def outcome(*topics: create_topics_api.CreatableTopic) -> dict[str, ErrorCode]:
    image = MetadataImage()
    decision = metadata_topics.create_topics(image, topics, ONE_BROKER, topic_ids())
    replay(image, decision)
    codes: dict[str, ErrorCode] = {}
    for name, result in decision.result:
        assert name not in codes
        if isinstance(result, Refusal):
            codes[name] = result.error_code
        else:
            codes[name] = ErrorCode.NONE
            assert image.topics[name] == result
    assert set(image.topics) == {name for name, code in codes.items() if not code}
    return codes


def test_one_impossible_topic_does_not_stop_the_others() -> None:
    assert outcome(wanted("a"), wanted("b", 0), wanted("c")) == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.INVALID_PARTITIONS,
        "c": ErrorCode.NONE,
    }


def test_a_name_given_twice_is_refused_once_and_not_made() -> None:
    assert outcome(wanted("a"), wanted("b"), wanted("a", 2)) == {
        "a": ErrorCode.INVALID_REQUEST,
        "b": ErrorCode.NONE,
    }


def test_topics_of_one_request_can_collide_with_each_other() -> None:
    assert outcome(wanted("a.b"), wanted("a_b")) == {
        "a.b": ErrorCode.NONE,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_a_refused_topic_collides_with_nothing() -> None:
    assert outcome(wanted("a.b", 0), wanted("a_b"))["a_b"] is ErrorCode.NONE


def test_one_request_makes_a_limited_number_of_partitions() -> None:
    half = metadata_topics.PARTITIONS_PER_REQUEST_MAX // 2
    by_hand = wanted("b", assignments=[(number, [1]) for number in range(half)])
    assert outcome(wanted("a", half), by_hand, wanted("c")) == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.NONE,
        "c": ErrorCode.POLICY_VIOLATION,
    }
