"""Rates, latencies and counts in memory that does not grow."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core import meters
from minikafka_client.errors import BrokerError, ConnectionLostError
from minikafka_client.statistics import WINDOW_S, Rates


def test_nothing_has_no_rate() -> None:
    assert meters.RateMeter().rates(5.0) == Rates(0.0, 0.0)


def test_a_rate_is_per_second_since_the_first_batch() -> None:
    meter = meters.RateMeter()
    for second in range(10):
        meter.add(100, 2_000, 50.0 + second)
    assert meter.rates(60.0) == Rates(100.0, 2_000.0)
    assert (meter.records, meter.size_bytes) == (1_000, 20_000)


def test_what_came_in_a_moment_is_not_extrapolated() -> None:
    meter = meters.RateMeter()
    meter.add(100, 0, 50.0)
    assert meter.rates(50.001).records_per_s == 100


def test_a_rate_forgets_what_is_older_than_the_window() -> None:
    meter = meters.RateMeter()
    meter.add(1_000_000, 1, 10.5)
    for second in range(WINDOW_S):
        meter.add(10, 1, 100.0 + second)
    assert meter.rates(100.0 + WINDOW_S).records_per_s == pytest.approx(10, rel=0.1)
    assert meter.rates(500.0) == Rates(0.0, 0.0)
    meter.add(7, 1, 500.0)
    assert meter.rates(500.5).records_per_s == 7


@given(st.lists(st.floats(0, 2_000), min_size=1, max_size=200))
def test_a_meter_remembers_no_more_than_a_window(pauses: list[float]) -> None:
    meter, now = meters.RateMeter(), 0.0
    for pause_s in pauses:
        now += pause_s
        meter.add(1, 1, now)
    assert len(meter._seconds) <= WINDOW_S + 2  # pyright: ignore[reportPrivateUsage] - its size
    assert meter.records == len(pauses)


def test_no_requests_have_no_latency() -> None:
    assert meters.LatencyMeter().latencies(5.0) == meters.NO_LATENCIES
    assert meters.joined_latencies([], 5.0) == meters.NO_LATENCIES


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_at_most_a_tenth_too_high(seed: int) -> None:
    dice = random.Random(seed)
    meter = meters.LatencyMeter()
    taken = [10 ** dice.uniform(-4.5, 1) for _ in range(500)]
    for seconds in taken:
        meter.add(seconds, 100.0)
    found = meter.latencies(100.0)
    exact = sorted(taken)
    assert found.request_count == 500
    assert found.mean_ms == pytest.approx(sum(taken) * 2)
    assert found.max_ms == exact[-1] * 1000
    for quantile, index in ((found.p50_ms, 249), (found.p95_ms, 474)):
        assert exact[index] * 1000 <= quantile * 1.0001
        assert quantile <= exact[index] * 1000 * 1.1001


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e9])
def test_latencies_beyond_the_classes_are_counted(seconds: float) -> None:
    meter = meters.LatencyMeter()
    meter.add(seconds, 0.0)
    found = meter.latencies(0.0)
    assert (found.request_count, found.max_ms) == (1, seconds * 1000)
    assert found.p50_ms <= found.max_ms


def test_latencies_are_those_of_one_or_two_windows() -> None:
    meter = meters.LatencyMeter()
    meter.add(9.0, 0.0)
    meter.add(1.0, WINDOW_S + 1.0)
    assert meter.latencies(WINDOW_S + 1.0).request_count == 2
    assert meter.latencies(2 * WINDOW_S + 2.0).max_ms == 1_000
    assert meter.latencies(9 * WINDOW_S) == meters.NO_LATENCIES


def test_requests_are_counted_by_broker() -> None:
    meter = meters.RequestMeter()
    for node in (1, 1, 2, 3):
        meter.sent(node)
    meter.answered(1, 0.010, 5.0)
    meter.answered(2, 0.030, 5.0)
    meter.sent(2)
    meter.answered(2, 0.030, 5.0)
    meter.lost(3)
    brokers = meter.brokers(5.0)
    assert (meter.requests, meter.in_flight) == (5, 1)
    assert {node: each.in_flight_requests for node, each in brokers.items()} == {1: 1, 2: 0, 3: 0}
    assert brokers[1].latency.max_ms == 10
    assert brokers[3].latency == meters.NO_LATENCIES
    assert meter.latencies(5.0).mean_ms == pytest.approx(70 / 3)


def test_errors_are_counted_by_kafka_s_name_or_their_own() -> None:
    assert (
        meters.error_name(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)) == "NOT_LEADER_OR_FOLLOWER"
    )
    assert meters.error_name(ConnectionLostError("gone")) == "ConnectionLostError"
