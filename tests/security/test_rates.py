"""Rates over windows of time, and token buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.rates import SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1)


def test_a_new_client_may_use_what_all_past_windows_allow_at_once() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, 50.0)
    assert rate.rate(50.0) == 100
    assert rate.excess_seconds(100, 50.0) == 0
    rate.record(10, 50.0)
    assert rate.excess_seconds(100, 50.0) == pytest.approx(0.1)


def test_waiting_as_told_brings_the_rate_down_to_the_limit() -> None:
    rate = SampledRate(WINDOWS)
    for second in range(10):
        rate.record(300, float(second))
    wait = rate.excess_seconds(100, 9.0)
    # The windows that ended meanwhile are forgotten, so it may be even less.
    assert rate.rate(9.0 + wait) <= 100
    assert wait == pytest.approx((300 - 100) / 100 * 10)


def test_what_happened_before_all_windows_is_forgotten() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, 0.0)
    rate.record(10, 5.0)
    assert rate.rate(10.9) == pytest.approx(1010 / 10.9)
    assert rate.rate(11.0) == pytest.approx(10 / 10)
    assert not rate.is_idle(15.9)
    assert rate.is_idle(16.0)
    assert rate.rate(16.0) == 0


def test_what_is_taken_back_never_happened() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(100, 1.0)
    before = rate.rate(1.2)
    rate.record(5000, 1.2)
    rate.record(-5000, 1.2)
    assert rate.rate(1.2) == before


def test_a_single_window_has_a_rate_from_its_first_moment_on() -> None:
    rate = SampledRate(Windows(1, 1))
    rate.record(1, 3.0)
    assert rate.rate(3.0) == 1000
    assert rate.rate(3.5) == 2


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 1000)), min_size=1, max_size=60),
    st.integers(1, 12),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_no_client_that_waits_as_told_exceeds_its_limit_over_the_windows(
    uses: list[tuple[float, int]], count: int, seconds: float
) -> None:
    """In as much time: what it had saved up, what it may use, and what one request may bring."""
    limit, now = 100.0, 1000.0
    rate = SampledRate(Windows(count, seconds))
    used: list[tuple[float, int]] = []
    for pause, amount in uses:
        now += pause
        rate.record(amount, now)
        used.append((now, amount))
        now += rate.excess_seconds(limit, now)
    span = count * seconds
    for began, _ in used:
        stretch = [amount for at, amount in used if began <= at < began + span]
        assert sum(stretch) <= 2 * limit * span + max(stretch) + 1e-6


def test_a_bucket_begins_full_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(Windows(11, 1))
    assert bucket.debt_seconds(2.0, 100.0) == 0
    bucket.take(22, 2.0, 100.0)
    assert bucket.debt_seconds(2.0, 100.0) == 0
    bucket.take(5, 2.0, 100.0)
    assert bucket.debt_seconds(2.0, 100.0) == 2.5
    assert bucket.debt_seconds(2.0, 102.0) == 0.5
    assert bucket.debt_seconds(2.0, 102.5) == 0


def test_a_bucket_holds_no_more_than_its_windows() -> None:
    bucket = TokenBucket(Windows(2, 1))
    bucket.take(1, 3.0, 0.0)
    bucket.take(7, 3.0, 1000.0)
    assert bucket.debt_seconds(3.0, 1000.0) == pytest.approx(1 / 3)


def test_a_bucket_may_be_forgotten_when_it_must_be_full_again() -> None:
    bucket = TokenBucket(Windows(2, 1))
    bucket.take(3, 3.0, 10.0)
    assert not bucket.is_idle(11.9)
    assert bucket.is_idle(12.0)
    bucket.take(100, 3.0, 12.0)
    assert not bucket.is_idle(30.0)
