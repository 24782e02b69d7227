"""A coordinator or a log without one of its guards turns the right claim red."""

from __future__ import annotations

from minikafka.lab.claims import claim_of
from minikafka.lab.matrix import PRODUCERS, Cell, Commit, ConsumerMode, Fault, TopicMode
from minikafka.lab.results import CellResult, Verdict, judge
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.engine import SimulationEngine
from tests.lab.simulation.coordinator_mutants import zombies_may_commit
from tests.simulation.transactions.mutants import high_watermark_is_stable

TRANSACTIONAL = PRODUCERS[-1]


def verdict(claim_id: str, cell: Cell, seeds: int) -> Verdict:
    """The stamp of a claim, as soon as a seed shows the contrary."""
    claim, result, engine = claim_of(claim_id), CellResult(), SimulationEngine()
    for seed in range(seeds):
        result.add(engine.run(Scenario(cell, seed)))
        if judge(claim, {cell: result}).verdict is Verdict.FALSE:
            return Verdict.FALSE
    return judge(claim, {cell: result}).verdict


def test_a_zombie_that_may_commit_repeats_results() -> None:
    cell = Cell(
        TRANSACTIONAL,
        TopicMode(),
        ConsumerMode(Commit.TRANSACTION, is_read_committed=True),
        Fault.CONSUMER_PAUSED,
    )
    assert verdict("transactions-exactly-once", cell, 2) is Verdict.TRUE
    with zombies_may_commit.applied():
        found = verdict("transactions-exactly-once", cell, zombies_may_commit.seeds)
    assert found is Verdict.FALSE


def test_reading_beyond_the_last_stable_offset_shows_aborted_records() -> None:
    cell = Cell(
        TRANSACTIONAL,
        TopicMode(),
        ConsumerMode(Commit.AFTER_SYNC, is_read_committed=True),
        Fault.NONE,
    )
    assert verdict("read-committed-is-whole", cell, 2) is Verdict.TRUE
    with high_watermark_is_stable.applied():
        found = verdict("read-committed-is-whole", cell, 20)
    assert found is Verdict.FALSE
