"""Consumers and transactions in the simulation: a run or two of every fault against every claim."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import count, product

import pytest

from minikafka.lab.claims import CLAIMS, Claim
from minikafka.lab.matrix import PRODUCERS, Cell, Commit, ConsumerMode, Fault, TopicMode, cells
from minikafka.lab.results import CellResult, Verdict, judge
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.engine import SimulationEngine

IDEMPOTENT, TRANSACTIONAL = PRODUCERS[-2:]
ENGINE = SimulationEngine()
FAULTS = tuple(dict.fromkeys(cell.fault for cell in cells() if cell.consumer is not None))
WITH_CONSUMER = [
    claim
    for claim in CLAIMS
    if claim.says and all(cell.consumer for says in claim.says for cell in says.where.cells())
]
TOKENS = (
    "p.acksall-tx-fly5_t.r3-m2_c.transaction-rc_f.consumer-paused@3",
    "p.acksall-tx-fly5_t.r3-m2_c.spark-sink_f.coordinator-killed@1",
    "p.acksall-tx-fly5_t.r3-m2_c.none_f.producer-killed@2",
)


@pytest.fixture(scope="module")
def found() -> Mapping[Cell, CellResult]:
    """Each commit with each fault, once; producers and isolation take turns."""
    results: dict[Cell, CellResult] = {}
    seeds = count()
    for commit, fault in product(Commit, FAULTS):
        seed = next(seeds)
        producer = TRANSACTIONAL if seed % 2 else IDEMPOTENT
        cell = Cell(producer, TopicMode(), ConsumerMode(commit, bool(seed // 2 % 2)), fault)
        results.setdefault(cell, CellResult()).add(ENGINE.run(Scenario(cell, seed)))
    return results


def test_claims_about_consumers_are_there() -> None:
    assert len(WITH_CONSUMER) >= 12
    assert len(FAULTS) == 9


@pytest.mark.parametrize("claim", WITH_CONSUMER, ids=lambda claim: claim.id)
def test_a_claim_holds(claim: Claim, found: Mapping[Cell, CellResult]) -> None:
    judgement = judge(claim, found)
    assert judgement.verdict is Verdict.TRUE, (judgement.why, judgement.example)


@pytest.mark.parametrize(
    "fault",
    [
        cell.fault
        for cell in cells()
        if (cell.producer, cell.topic, cell.consumer) == (TRANSACTIONAL, TopicMode(), None)
        and cell.fault is not Fault.POWER_LOSS_ALL  # nothing in page caches survives it
    ],
    ids=lambda fault: fault.value,
)
def test_transactions_lose_and_repeat_nothing(fault: Fault) -> None:
    run = ENGINE.run(Scenario(Cell(TRANSACTIONAL, TopicMode(), None, fault), 0))
    counts = run.counts
    assert (counts.lost, counts.repeated, counts.reordered) == (0, 0, 0)
    assert counts.trusted > 0
    assert bool(run.faults) == (fault is not Fault.NONE)


def test_a_run_repeats_itself_in_every_process() -> None:
    script = (
        "import sys\n"
        "from minikafka.lab.scenario import Scenario\n"
        "from minikafka.lab.simulation.engine import SimulationEngine\n"
        "for token in sys.argv[1:]:\n"
        "    print(SimulationEngine().run(Scenario.parse(token)).fingerprint)\n"
    )
    here = [ENGINE.run(Scenario.parse(token)).fingerprint for token in TOKENS]
    there = subprocess.run(
        [sys.executable, "-c", script, *TOKENS],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
    ).stdout.split()
    assert here == there
    assert len(set(here)) == len(TOKENS)


def test_only_the_faults_that_are_kept_happen() -> None:
    scenario = next(
        one
        for seed in range(20)
        if len(ENGINE.run(one := Scenario(Scenario.parse(TOKENS[0]).cell, seed)).faults) >= 2
    )
    assert not ENGINE.run(scenario._replace(kept=())).faults
    assert set(ENGINE.run(scenario._replace(kept=(0,))).faults) == {0}


@pytest.mark.parametrize("token", TOKENS)
def test_a_timeline_shows_the_same_run(token: str) -> None:
    run = ENGINE.run(Scenario.parse(token))
    timeline = run.timeline()
    times = [event.t for event in timeline.events]
    assert times == sorted(times)
    assert timeline.counts == run.counts
    assert {event.lane for event in timeline.events} <= {lane.id for lane in timeline.lanes}
    assert {"producer-1", "node-1", "node-2", "node-3"} <= {lane.id for lane in timeline.lanes}
    assert {"commit", "append"} <= {event.kind for event in timeline.events}
