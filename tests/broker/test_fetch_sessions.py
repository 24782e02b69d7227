"""Fetch sessions (KIP-227) as a client sees them."""

import itertools

import pytest

from minikafka.broker.replicas import fetch_sessions
from minikafka.broker.replicas.fetch_sessions import (
    EVICTION_AGE_SECONDS,
    FetchPlan,
    FetchSessionCache,
    SessionError,
    asked_partitions,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch


def cache_with(slots: int = 10) -> FetchSessionCache:
    return FetchSessionCache(slots, itertools.count(1).__next__)


def request(
    session_id: int, epoch: int, *partitions: int, offset: int = 0, forgotten: tuple[int, ...] = ()
) -> fetch.Request:
    return fetch.Request(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            fetch.Topic(
                topic="t",
                partitions=[
                    fetch.Partition(partition=one, fetch_offset=offset, partition_max_bytes=1)
                    for one in partitions
                ],
            )
        ],
        forgotten_topics_data=[fetch.ForgottenTopic(topic="t", partitions=list(forgotten))],
    )


def plan_of(
    cache: FetchSessionCache, asked: fetch.Request, uses_topic_ids: bool, now: float
) -> FetchPlan:
    return cache.plan(asked, uses_topic_ids, now, list(asked_partitions(asked.topics)))


def numbers(plan: FetchPlan) -> list[int]:
    return [one.key[2] for one in plan.partitions]


def test_a_sessionless_fetch_reads_only_its_partitions_and_keeps_no_state() -> None:
    cache = cache_with()
    plan = plan_of(cache, request(0, -1, 1, 2), False, 0.0)
    assert (plan.session, plan.session_id, numbers(plan)) == (None, 0, [1, 2])
    assert len(cache) == 0


def test_an_incremental_fetch_continues_with_all_partitions_of_the_session() -> None:
    cache = cache_with()
    first = plan_of(cache, request(0, 0, 1, 2, 3), False, 0.0)
    assert not first.is_incremental
    plan = plan_of(cache, request(first.session_id, 1, 2, 4, offset=9, forgotten=(1,)), False, 0.0)
    assert plan.is_incremental
    assert numbers(plan) == [2, 3, 4]
    assert [one.asked.fetch_offset for one in plan.partitions] == [9, 0, 9]


def test_a_wrong_epoch_and_an_unknown_session_are_refused() -> None:
    cache = cache_with()
    session_id = plan_of(cache, request(0, 0, 1), False, 0.0).session_id
    for asked, code in (
        (request(session_id, 2), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (request(session_id + 1, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        with pytest.raises(SessionError) as refused:
            plan_of(cache, asked, False, 0.0)
        assert refused.value.error_code is code


def test_a_session_of_names_cannot_continue_with_topic_ids() -> None:
    cache = cache_with()
    session_id = plan_of(cache, request(0, 0, 1), False, 0.0).session_id
    with pytest.raises(SessionError) as refused:
        plan_of(cache, request(session_id, 1), True, 0.0)
    assert refused.value.error_code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_closes_a_session() -> None:
    cache = cache_with()
    session_id = plan_of(cache, request(0, 0, 1), False, 0.0).session_id
    assert plan_of(cache, request(session_id, -1, 1), False, 0.0).session is None
    assert len(cache) == 0


def test_epochs_wrap_to_one_because_zero_means_full() -> None:
    cache = cache_with()
    plan = plan_of(cache, request(0, 0, 1), False, 0.0)
    assert plan.session is not None
    plan.session.epoch = 2**31 - 1
    plan_of(cache, request(plan.session_id, 2**31 - 1), False, 0.0)
    assert plan.session.epoch == 1


def test_a_full_cache_gives_no_session_until_one_may_be_evicted() -> None:
    cache = cache_with(slots=1)
    old = plan_of(cache, request(0, 0, 1), False, 0.0)
    assert plan_of(cache, request(0, 0, 1), False, EVICTION_AGE_SECONDS - 1).session is None
    new = plan_of(cache, request(0, 0, 1), False, EVICTION_AGE_SECONDS)
    assert new.session is not None
    assert new.session_id != old.session_id
    assert len(cache) == 1


def test_a_cache_without_slots_never_gives_a_session() -> None:
    assert plan_of(cache_with(slots=0), request(0, 0, 1), False, 0.0).session is None


def test_session_ids_are_never_zero_nor_taken() -> None:
    ids = iter([0, 7, 7, 8])
    cache = FetchSessionCache(10, lambda: next(ids))
    assert [plan_of(cache, request(0, 0, 1), False, 0.0).session_id for _ in range(2)] == [7, 8]


def test_partitions_that_got_records_wait_for_the_others() -> None:
    cache = cache_with()
    plan = plan_of(cache, request(0, 0, 1, 2, 3), False, 0.0)
    assert plan.session is not None
    plan.session.move_to_end([plan.partitions[0].key, ("gone", b"", 0)])
    assert numbers(plan_of(cache, request(plan.session_id, 1), False, 0.0)) == [2, 3, 1]


def test_a_client_with_more_partitions_than_the_cache_gets_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 5)
    cache = cache_with()
    assert plan_of(cache, request(0, 0, 1, 2, 3), False, 0.0).session is not None
    plan = plan_of(cache, request(0, 0, 1, 2, 3), False, 0.0)
    assert (plan.session, plan.session_id, numbers(plan)) == (None, 0, [1, 2, 3])
    assert plan_of(cache, request(0, 0, 1, 2), False, 0.0).session is not None


def test_old_sessions_are_evicted_for_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 5)
    cache = cache_with()
    plan_of(cache, request(0, 0, 1, 2), False, 0.0)
    plan_of(cache, request(0, 0, 1, 2), False, 1.0)
    plan = plan_of(cache, request(0, 0, 1, 2, 3), False, EVICTION_AGE_SECONDS)
    assert plan.session is not None
    assert len(cache) == 2


def test_a_session_that_grows_too_large_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 5)
    cache = cache_with()
    session_id = plan_of(cache, request(0, 0, 1, 2, 3), False, 0.0).session_id
    assert numbers(plan_of(cache, request(session_id, 1, 2, 4), False, 0.0)) == [1, 2, 3, 4]
    with pytest.raises(SessionError) as caught:
        plan_of(cache, request(session_id, 2, 5, 6), False, 0.0)
    assert caught.value.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0
