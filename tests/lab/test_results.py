"""From runs to stamps: claims about fake engines."""

from __future__ import annotations

import json

import pytest

from minikafka.lab.claims import CLAIMS, Bound, Claim, Says, Where, claim_of
from minikafka.lab.ledger import Counts
from minikafka.lab.matrix import Acks, Cell, Fault, cells
from minikafka.lab.report import Lab, lag_of, staleness_of
from minikafka.lab.results import CellResult, Verdict, judge, overall
from minikafka.lab.runner import EngineResult, run_everywhere, run_here
from minikafka.lab.scenario import OwnStrike, Scenario
from tests.lab.fake_engine import FINE, FakeEngine, make_fine

ACKS1 = Where(acks=(Acks.LEADER,), replicas=(3,), faults=(Fault.NONE, Fault.ACK_LOST))
NEVER_LOST = Claim("never", "Nothing is lost.", (Says(ACKS1, "lost", Bound.NEVER),))
CAN_REPEAT = Claim("can", "It can repeat.", (Says(ACKS1, "repeated", Bound.SHOWN),))


def lossy(scenario: Scenario) -> Counts:
    """Seed 3 loses a record where an acknowledgement is lost."""
    is_hit = scenario.seed == 3 and scenario.cell.fault is Fault.ACK_LOST
    return FINE._replace(lost=1) if is_hit else FINE


def found_by(engine: FakeEngine, claim: Claim) -> dict[Cell, CellResult]:
    chosen = list(dict.fromkeys(cell for one in claim.says for cell in one.where.cells()))
    return run_here(engine, chosen, range(5)).cells


def test_never_holds_until_one_run_shows_the_contrary() -> None:
    fine = judge(NEVER_LOST, found_by(FakeEngine(), NEVER_LOST))
    assert (fine.verdict, fine.example) == (Verdict.TRUE, None)
    assert fine.runs == 5 * len(list(ACKS1.cells()))
    broken = judge(NEVER_LOST, found_by(FakeEngine(lossy), NEVER_LOST))
    assert broken.verdict is Verdict.FALSE
    assert broken.example is not None
    assert Scenario.parse(broken.example).seed == 3
    assert broken.counts.lost == sum(one.fault is Fault.ACK_LOST for one in ACKS1.cells())


def test_what_can_happen_stays_open_until_it_is_shown() -> None:
    assert judge(CAN_REPEAT, found_by(FakeEngine(), CAN_REPEAT)).verdict is Verdict.OPEN
    engine = FakeEngine(lambda scenario: FINE._replace(repeated=scenario.seed))
    assert judge(CAN_REPEAT, found_by(engine, CAN_REPEAT)).verdict is Verdict.TRUE


def test_a_claim_without_runs_is_open() -> None:
    for claim in CLAIMS:
        assert judge(claim, {}).verdict is Verdict.OPEN


def test_a_claim_about_time_is_decided_by_medians() -> None:
    claim = claim_of("acksall-latency")
    assert claim.costs is not None
    assert claim.costs.over is not None
    found: dict[Cell, CellResult] = {}
    for where, seconds in ((claim.costs.of, 0.005), (claim.costs.over, 0.002)):
        found |= run_here(FakeEngine(measures={"ack_s": seconds}), list(where.cells()), [0]).cells
    judgement = judge(claim, found)
    assert judgement.verdict is Verdict.TRUE
    assert judgement.why.startswith("2.50 times")


def test_one_engine_that_shows_the_contrary_decides() -> None:
    fine = judge(NEVER_LOST, found_by(FakeEngine(), NEVER_LOST))
    broken = judge(NEVER_LOST, found_by(FakeEngine(lossy), NEVER_LOST))
    assert overall([fine, broken]) is Verdict.FALSE
    assert overall([fine]) is Verdict.TRUE
    assert overall([]) is Verdict.OPEN


def test_a_lab_says_what_is_not_as_expected() -> None:
    lab = Lab([run_here(FakeEngine(lossy), list(ACKS1.cells()), range(5))], [NEVER_LOST])
    (line,) = lab.surprises
    assert line.startswith("never: false, expected true (simulation: lost in ")


def test_a_broken_invariant_is_a_surprise_whatever_claims_say() -> None:
    def broken(scenario: Scenario) -> Counts:
        if scenario.seed == 1:
            raise AssertionError("trace\nelection safety: node 2 leads without r3")
        return FINE

    cell = next(ACKS1.cells())
    result = run_here(FakeEngine(broken), [cell], range(3))
    assert result.cells[cell].runs == 2
    text = "election safety: node 2 leads without r3"
    assert Lab([result], [CAN_REPEAT]).surprises == [f"{cell}@1: {text}"]
    claimed, broke = Lab([result], [NEVER_LOST]).surprises
    assert claimed.startswith("never: false, expected true (simulation: an invariant broke: ")
    assert broke == f"{cell}@1: {text}"


def test_whatever_a_run_raises_turns_it_red() -> None:
    def breaks(_: Scenario) -> Counts:
        raise ZeroDivisionError("of a broker")

    found = found_by(FakeEngine(breaks), NEVER_LOST)
    broken = {text for one in found.values() for text in one.broken.values()}
    assert broken == {"ZeroDivisionError: of a broker"}
    assert judge(NEVER_LOST, found).verdict is Verdict.FALSE


def test_workers_come_to_the_same() -> None:
    chosen = list(ACKS1.cells())[:3]
    here = run_here(FakeEngine(), chosen, range(4))
    there = run_everywhere(make_fine, chosen, range(4), workers=2)
    assert there.cells == here.cells
    assert list(there.cells) == chosen


def test_cells_that_an_engine_cannot_run_are_counted_by_reason() -> None:
    engine = FakeEngine(refused=lambda cell: "no network" if cell.fault is Fault.NONE else None)
    result = run_here(engine, list(ACKS1.cells()), [0])
    assert set(result.left_out) == {"no network"}
    assert all(cell.fault is not Fault.NONE for cell in result.cells)


def test_the_document_has_a_timeline_for_each_example() -> None:
    engine = FakeEngine(lossy)
    lab = Lab([run_here(engine, list(ACKS1.cells()), range(5))], [NEVER_LOST])

    def timeline_of(scenario: Scenario) -> dict[str, object]:
        return engine.run(scenario).timeline().to_json() | {"faults": ["node 1 is killed"]}

    document = lab.document(timeline_of, lambda scenario, _: scenario)
    json.dumps(document)
    (claim,) = document["claims"]
    example = claim["engines"]["simulation"]["example"]
    assert example["what"] == "lost"
    assert document["timelines"][example["seed"]]["events"]
    assert document["is_as_expected"] is False
    assert {cell["id"] for cell in document["cells"]} == {str(cell) for cell in ACKS1.cells()}


def test_lag_and_staleness_of_a_timeline() -> None:
    timeline = FakeEngine().run(Scenario(next(cells()), 0)).timeline().to_json()
    assert lag_of(timeline) == [[0.1, 0.0], [0.2, 1.0], [0.5, 0.0]]
    assert staleness_of(timeline) == [[0.5, 0.5]]


def test_claims_speak_of_cells_of_the_matrix() -> None:
    names = [claim.id for claim in CLAIMS]
    assert len(names) == len(set(names))
    for claim in CLAIMS:
        assert claim.says or claim.costs, claim.id
        for one in claim.says:
            assert any(one.where.cells()), claim.id
            assert one.what in Counts._fields


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "neither a number nor CELL@SEED"),
        ("nowhere@3", "no cell of the matrix is called 'nowhere'"),
        (f"{next(cells())}@", "neither a number nor CELL@SEED"),
        (f"{next(cells())}@-1", "neither a number nor CELL@SEED"),
        (f"{next(cells())}@1+a", "numbers with dots"),
        (f"{next(cells())}@1!2.eat.1", "is no strike"),
        (f"{next(cells())}@1!2.kill.4", "is no strike"),
    ],
)
def test_what_is_no_token_is_refused(token: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Scenario.parse(token)


def test_tokens_survive() -> None:
    for number, cell in enumerate(cells()):
        for kept in (None, (), (0, 2)):
            own = (OwnStrike(1.5, "kill", "leader"), OwnStrike(2, "heal", "1"))[: number % 3]
            scenario = Scenario(cell, number, kept, own)
            assert Scenario.parse(str(scenario)) == scenario
    assert Scenario.parse("17") == Scenario.parse("17")


def test_nothing_is_left_out_of_a_result_with_nothing() -> None:
    assert EngineResult("x").runs == 0
