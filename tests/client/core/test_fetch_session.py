"""What a fetch session names, and what restarts it (KIP-227)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch
from minikafka_client.core.fetch_session import EPOCH_MAX, FetchSession, SessionPart, Wanted
from minikafka_client.core.fetcher import Changed
from minikafka_client.errors import ConnectionLostError
from minikafka_client.types import TopicPartition
from tests.client.core.fetcher_world import World, config
from tests.client.core.sender_world import TOPIC

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


def wanted(**offsets: int) -> dict[TopicPartition, Wanted]:
    """Partitions by name (``p0=5``) and where to fetch from."""
    return {
        TopicPartition("t", int(name[1:])): Wanted(ID, offset, 0, -1, 100)
        for name, offset in offsets.items()
    }


def named(part: SessionPart) -> list[tuple[int, int]]:
    return [(each.partition, each.fetch_offset) for t in part.topics for each in t.partitions]


def forgotten(part: SessionPart) -> list[int]:
    return [index for topic in part.forgotten for index in topic.partitions]


def granted(session_id: int, error_code: int = 0) -> fetch.Response:
    return fetch.Response(responses=[], session_id=session_id, error_code=error_code)


def opened(**offsets: int) -> FetchSession:
    session = FetchSession()
    first = session.request(wanted(**offsets), uses_topic_ids=True)
    assert (first.session_id, first.epoch) == (0, 0)
    session.answered(granted(7))
    return session


def test_the_first_request_names_everything_the_next_what_changed() -> None:
    session = opened(p0=1, p1=1)
    second = session.request(wanted(p0=1, p1=9), uses_topic_ids=True)
    assert (second.session_id, second.epoch) == (7, 1)
    assert named(second) == [(1, 9)]
    session.answered(granted(7))
    third = session.request(wanted(p0=1, p1=9), uses_topic_ids=True)
    assert (third.epoch, named(third), forgotten(third)) == (2, [], [])


def test_what_is_no_longer_wanted_is_forgotten_and_what_is_new_is_named() -> None:
    session = opened(p0=1, p1=1, p2=1)
    part = session.request(wanted(p1=1, p3=4), uses_topic_ids=True)
    assert named(part) == [(3, 4)]
    assert sorted(forgotten(part)) == [0, 2]
    assert [(topic.topic, topic.topic_id) for topic in part.forgotten] == [("t", ID)]


def test_without_a_session_everything_is_named_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        part = session.request(wanted(p0=1), uses_topic_ids=True)
        assert (part.session_id, part.epoch, named(part)) == (0, 0, [(0, 1)])
        session.answered(granted(0))


def test_a_broker_may_end_a_session() -> None:
    session = opened(p0=1)
    session.request(wanted(p0=2), uses_topic_ids=True)
    session.answered(granted(0))
    part = session.request(wanted(p0=2), uses_topic_ids=True)
    assert (part.session_id, part.epoch, named(part)) == (0, 0, [(0, 2)])


@pytest.mark.parametrize(
    ("code", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
    ],
)
def test_after_an_error_everything_is_named_and_the_old_session_is_closed(
    code: ErrorCode, session_id: int
) -> None:
    session = opened(p0=1)
    session.request(wanted(p0=2), uses_topic_ids=True)
    session.answered(granted(0, code))
    part = session.request(wanted(p0=2), uses_topic_ids=True)
    assert (part.session_id, part.epoch, named(part)) == (session_id, 0, [(0, 2)])
    session.answered(granted(8))
    assert session.request(wanted(p0=2), uses_topic_ids=True)[:2] == (8, 1)


def test_after_a_lost_answer_everything_is_named() -> None:
    session = opened(p0=1)
    session.request(wanted(p0=2), uses_topic_ids=True)
    session.lost()
    part = session.request(wanted(p0=2), uses_topic_ids=True)
    assert (part.session_id, part.epoch, named(part)) == (7, 0, [(0, 2)])


def test_names_and_ids_are_not_mixed_in_a_session() -> None:
    session = opened(p0=1)
    part = session.request(wanted(p0=1), uses_topic_ids=False)
    assert (part.session_id, part.epoch, named(part)) == (7, 0, [(0, 1)])


def test_a_topic_recreated_is_named_in_a_new_session() -> None:
    session = opened(p0=1)
    replacing = {TopicPartition("t", 0): Wanted(OTHER_ID, 1, 0, -1, 100)}
    part = session.request(replacing, uses_topic_ids=True)
    assert (part.session_id, part.epoch, named(part)) == (7, 0, [(0, 1)])
    assert forgotten(part) == []


def test_after_the_largest_epoch_comes_one() -> None:
    session = opened(p0=1)
    session.epoch = EPOCH_MAX
    session.answered(granted(7))
    assert session.request(wanted(p0=1), uses_topic_ids=True).epoch == 1


@given(st.lists(st.dictionaries(st.integers(0, 5), st.integers(0, 3), min_size=1), min_size=1))
def test_the_broker_knows_exactly_what_is_wanted(rounds: list[dict[int, int]]) -> None:
    session = FetchSession()
    at_broker: dict[int, int] = {}
    for offsets in rounds:
        part = session.request(
            wanted(**{f"p{index}": offset for index, offset in offsets.items()}),
            uses_topic_ids=True,
        )
        if part.epoch == 0:
            at_broker.clear()
        at_broker.update(named(part))
        for index in forgotten(part):
            del at_broker[index]
        assert at_broker == offsets
        session.answered(granted(7))


# --- with a fetcher ---


def connected(*partitions: int, **settings: object) -> World:
    world = World(settings=config(**settings))
    for partition in partitions:
        world.assign(partition)
    world.recover()
    return world


def test_an_idle_partition_is_named_once() -> None:
    world = connected(0, 2)
    world.logs[2].truncate(0)
    world.answer(1)
    [waiting] = world.in_flight[1]
    assert [each.partition for topic in waiting.request.topics for each in topic.partitions] == [0]
    assert sorted(each.partition for _, each in waiting.partitions) == [0, 2]


def test_a_broker_that_forgot_the_session_is_asked_for_everything_in_one_request() -> None:
    world = connected(0, 2)
    while world.in_flight[1]:
        world.answer(1)  # until there is no room for more
    world.sessions[1].forget()
    while not world.in_flight[1]:
        assert world.take()
    [waiting] = world.in_flight[1]
    assert waiting.request.session_epoch == 0
    assert len(waiting.partitions) == 2


def test_a_broker_that_never_grants_a_session_is_no_obstacle() -> None:
    world = connected(0)
    world.sessions[1].grants = False
    for _ in range(3):
        world.answer(1)
        assert world.take()
        assert [each.request.session_epoch for each in world.in_flight[1]] == [0]


@pytest.mark.parametrize("seed", range(10))
def test_every_record_is_read_although_sessions_are_lost(seed: int) -> None:
    dice = random.Random(seed)
    world = connected(0, 1, 2)
    expected = [0, 0, 0]
    for _ in range(600):
        node = dice.choice([1, 2])
        match dice.randrange(8):
            case 0:
                world.sessions[node].forget()
            case 1:
                world.fail(node, ConnectionLostError("lost"))
            case 2:
                reader = world.reader(dice.randrange(3))
                reader.is_paused = not reader.is_paused
                world.fetcher.resumed(reader)
                world.feed(Changed())
            case _:
                world.recover()
                world.answer(node)
                world.expire(0.3)
        for record in world.take():
            assert (record.topic, record.offset) == (TOPIC, expected[record.partition])
            expected[record.partition] += 1
    for index in range(3):
        world.reader(index).is_paused = False
        world.fetcher.resumed(world.reader(index))
    world.feed(Changed())
    for _ in range(100):
        world.recover()
        world.answer(1)
        world.answer(2)
        world.expire(0.3)
        for record in world.take():
            assert record.offset == expected[record.partition]
            expected[record.partition] += 1
    assert expected == [60, 60, 60]
