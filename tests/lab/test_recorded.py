"""Results that were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.lab import recorded
from minikafka.lab.claims import CLAIMS, claim_of
from minikafka.lab.ledger import Counts
from minikafka.lab.matrix import Cell
from minikafka.lab.results import CellResult, judge


def test_what_was_saved_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell.parse("p.acks0_t.r3-m2_c.none_f.request-lost")
    result = CellResult(runs=2, counts=Counts(sent=9, lost=1), measures={"ack_s": [0.1, 0.3]})
    result.runs_with["lost"] = 1
    result.examples["lost"] = f"{cell}@0"
    path = tmp_path / "mine.json"
    recorded.save(path, {cell: result}, engine="mine", version="1", date="2026-11-23", cores=2)
    monkeypatch.setattr(recorded, "files", lambda _: tmp_path)
    found = recorded.load("mine")
    assert found is not None
    assert (found.engine, found.version, found.date, found.cores) == ("mine", "1", "2026-11-23", 2)
    result.measures["ack_s"] = [0.2]
    assert found.found == {cell: result}
    assert found.verdicts == {"acks0-at-most-once": "true"}


def test_an_engine_of_which_nothing_was_recorded() -> None:
    assert recorded.load("simulation") is None


def test_apache_kafka_did_what_we_expect() -> None:
    found = recorded.load("apache-kafka")
    assert found is not None
    expected = {True: "true", False: "false"}
    for claim in CLAIMS:
        if claim.id in found.verdicts and claim.expected is not None:
            assert found.verdicts[claim.id] == expected[claim.expected], claim.id
    for name, verdict in found.verdicts.items():
        assert judge(claim_of(name), found.found).verdict.value == verdict
