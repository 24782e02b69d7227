"""Histories of a correct model are clean; with one fault in them, it is found."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minikafka.testing.history.anomalies import ALWAYS_ALLOWED, Anomaly
from minikafka.testing.history.checker import check_history
from tests.history.faults import FAULTS
from tests.history.model import Model

seeds = st.integers(0, 2**32 - 1)
steps = st.integers(1, 120)


@given(seed=seeds, steps=steps, keys=st.integers(1, 4), processes=st.integers(1, 5))
def test_a_correct_execution_is_clean(seed: int, steps: int, keys: int, processes: int) -> None:
    report = check_history(Model(random.Random(seed), keys, processes).run(steps))
    assert report.is_good, str(report)
    # One transaction after the other: only rebalances can make anything look out of order.
    rebalanced = {Anomaly.POLL_SKIP, Anomaly.NONMONOTONIC_POLL}
    assert set(report.allowed) <= rebalanced


@pytest.mark.parametrize("anomaly", FAULTS, ids=lambda anomaly: anomaly.value)
@given(seed=seeds, steps=st.integers(20, 120))
def test_one_fault_is_found(anomaly: Anomaly, seed: int, steps: int) -> None:
    dice = random.Random(seed)
    history = Model(dice).run(steps)
    faulty = FAULTS[anomaly](history, dice)
    assume(faulty is not None)
    assert faulty is not None
    report = check_history(faulty)
    assert anomaly in report.broken, str(report)


def test_there_is_a_fault_for_every_anomaly_that_is_not_allowed() -> None:
    assert set(Anomaly) - ALWAYS_ALLOWED == FAULTS.keys()
