from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.core.backoff import Backoff


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 0.05), (1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0), (1_000_000, 1.0)]
)
def test_pauses_double_up_to_the_last(attempt: int, seconds: float) -> None:
    backoff = Backoff(first_ms=50, last_ms=1_000, dice=lambda: 0.5)
    assert backoff.seconds(attempt) == pytest.approx(seconds)


@given(dice=st.floats(0, 1), attempt=st.integers(0, 100))
def test_the_jitter_is_a_fifth_either_way(dice: float, attempt: int) -> None:
    exact = Backoff(50, 1_000, lambda: 0.5).seconds(attempt)
    pause_s = Backoff(50, 1_000, lambda: dice).seconds(attempt)
    assert pause_s == pytest.approx(exact * (0.8 + 0.4 * dice))
    assert 0.79 * exact < pause_s < 1.21 * exact
