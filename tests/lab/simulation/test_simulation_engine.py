"""The simulation engine: what it counts, and that it repeats itself everywhere."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from minikafka.lab.claims import CLAIMS, Claim
from minikafka.lab.matrix import PRODUCERS, Acks, Cell, Fault, ProducerMode, TopicMode, cells
from minikafka.lab.results import CellResult, judge
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation import strikes
from minikafka.lab.simulation.engine import SimulationEngine
from minikafka.lab.simulation.run import LabRun

SEEDS = 2
ENGINE = SimulationEngine()
IDEMPOTENT = ProducerMode(Acks.ALL, is_idempotent=True, in_flight_max=5)
TRANSACTIONAL = PRODUCERS[-1]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def cells_of(claim: Claim) -> list[Cell]:
    """The cells of a claim that the engine runs."""
    return [
        cell for one in claim.says for cell in one.where.cells() if ENGINE.why_not(cell) is None
    ]


@pytest.fixture(scope="module")
def found() -> dict[Cell, CellResult]:
    """A few runs of every cell that a claim about the producer's side is about."""
    results: dict[Cell, CellResult] = {}
    for claim in CLAIMS:
        for cell in cells_of(claim):
            if cell not in results:
                results[cell] = CellResult()
                for seed in range(SEEDS):
                    results[cell].add(ENGINE.run(Scenario(cell, seed)))
    return results


ABOUT_PRODUCERS = [claim for claim in CLAIMS if claim.expected is not None and cells_of(claim)]


@pytest.mark.parametrize("claim", ABOUT_PRODUCERS, ids=lambda claim: claim.id)
def test_a_claim_is_stamped_as_expected(claim: Claim, found: dict[Cell, CellResult]) -> None:
    judgement = judge(claim, found)
    assert judgement.verdict.value == str(claim.expected).lower(), judgement.why


def test_every_cell_of_the_producers_side_can_be_run() -> None:
    missing = {
        ENGINE.why_not(cell)
        for cell in cells()
        if cell.consumer is None and not cell.producer.is_transactional
    }
    assert missing == {None}


WHERE = (IDEMPOTENT, TopicMode(), None)
PRODUCERS_FAULTS = [
    cell.fault for cell in cells() if cell[:3] == WHERE and cell.fault is not Fault.NONE
]


@pytest.mark.parametrize("fault", PRODUCERS_FAULTS)
def test_each_strike_happens(fault: Fault) -> None:
    cell = Cell(IDEMPOTENT, TopicMode(), None, fault)
    for seed in range(3):
        run = LabRun(Scenario(cell, seed))
        run.run()
        assert run.strikes.texts().keys() == run.strikes.kept


def test_a_strike_that_is_not_kept_does_not_happen() -> None:
    cell = Cell(IDEMPOTENT, TopicMode(), None, Fault.LEADER_KILLED_AFTER_ACK)
    seed = next(seed for seed in range(20) if len(LabRun(Scenario(cell, seed)).strikes.all) > 1)
    assert ENGINE.run(Scenario(cell, seed, (1,))).faults.keys() == {1}
    assert not ENGINE.run(Scenario(cell, seed, ())).faults


def test_a_clock_that_jumps_past_the_expiration_forgets_sequence_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why the lab's clocks jump by less than producer.id.expiration.ms, which is a day."""
    scenarios = [
        Scenario(Cell(IDEMPOTENT, TopicMode(), None, Fault.CLOCK_JUMP), seed) for seed in range(8)
    ]
    assert not any(ENGINE.run(one).counts.repeated for one in scenarios)
    monkeypatch.setattr(strikes, "CLOCK_ERRORS_MS", (2 * 86_400_000,))
    assert any(ENGINE.run(one).counts.repeated for one in scenarios)


@pytest.mark.parametrize("producer", [IDEMPOTENT, TRANSACTIONAL], ids=str)
def test_records_that_were_refused_for_want_of_replicas_are_counted(producer: ProducerMode) -> None:
    def too_few(fault: Fault) -> list[int]:
        cell = Cell(producer, TopicMode(), None, fault)
        return [ENGINE.run(Scenario(cell, seed)).counts.too_few for seed in range(6)]

    assert any(too_few(Fault.ISR_SHRUNK))
    assert not any(too_few(Fault.NONE))


def test_the_same_seed_goes_the_same_way_until_it_matters_what_acks_are() -> None:
    """So acks=1 and acks=all can be shown side by side."""
    texts = [
        ENGINE.run(
            Scenario(Cell(producer, TopicMode(), None, Fault.LEADER_KILLED_BEFORE_APPEND), 3, (0,))
        ).faults[0]
        for producer in (ProducerMode(Acks.LEADER), ProducerMode(Acks.ALL))
    ]
    assert texts[0] == texts[1]


TOKENS = [
    str(Scenario(Cell(IDEMPOTENT, TopicMode(), None, Fault.LEADER_PAUSED), 4)),
    str(Scenario(Cell(ProducerMode(Acks.LEADER), TopicMode(), None, Fault.POWER_LOSS_ALL), 5)),
]
_PROGRAM = """
import sys
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation import strikes
from minikafka.lab.simulation.engine import SimulationEngine
for token in sys.argv[1:]:
    print(SimulationEngine().run(Scenario.parse(token)).fingerprint)
"""


def test_a_run_has_the_same_fingerprint_in_every_process() -> None:
    here = [ENGINE.run(Scenario.parse(token)).fingerprint for token in TOKENS]
    assert len({*here}) == len(TOKENS)
    for hash_seed in ("1", "2"):
        elsewhere = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *TOKENS],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        assert elsewhere.stdout.split() == here


def test_a_fingerprint_tells_of_another_seed() -> None:
    cell = Cell(IDEMPOTENT, TopicMode(), None, Fault.NONE)
    assert len({ENGINE.run(Scenario(cell, seed)).fingerprint for seed in range(5)}) == 5


def test_a_recorder_changes_nothing() -> None:
    for token in TOKENS:
        run = LabRun(Scenario.parse(token))
        run.run(is_recorded=True)
        assert run.fingerprint() == ENGINE.run(Scenario.parse(token)).fingerprint
