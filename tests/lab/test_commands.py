"""`minikafka lab` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from minikafka.cli.main import main

LOST_WITH_LEADER = "p.acks1-retries_t.r3-m2_c.none_f.leader-killed-after-ack@0"


def lab(*words: str) -> Result:
    """Run it in this process; usage errors end with 2."""
    return CliRunner().invoke(main, ["lab", *words])


def test_show_lists_all_claims() -> None:
    result = lab("show", "--json")
    claims = json.loads(result.stdout)
    assert result.exit_code == 0
    assert len(claims) > 25
    assert {"id", "statement", "expected", "because", "says"} <= set(claims[0])


def test_show_explains_one_claim() -> None:
    result = lab("show", "acks1-exactly-once")
    assert "acks=1 with retries is exactly-once." in result.stdout
    assert "expected: false" in result.stdout
    assert "p.acks1-retries_t.r3-m" in result.stdout


def test_a_claim_that_does_not_exist() -> None:
    result = lab("show", "acks1-exactly-onse")
    assert result.exit_code == 1
    assert "did you mean acks1-exactly-once" in result.output


def run_one(tmp_path: Path) -> dict[str, Any]:
    """Run one claim with three seeds; the document."""
    json_path, html_path = tmp_path / "lab.json", tmp_path / "lab.html"
    result = lab(
        "run",
        *("--engine", "simulation", "--claim", "acks1-loses-with-the-leader"),
        *("--seeds", "3", "--workers", "1", "--json", str(json_path), "--html", str(html_path)),
    )
    assert result.exit_code == 0, result.output
    assert "acks1-loses-with-the-leader" in result.stdout
    html = html_path.read_text()
    assert "An acknowledged record" not in html  # nothing but what the document has
    assert "an acknowledged record is lost when the leader dies" in html
    document: dict[str, Any] = json.loads(json_path.read_text())
    return document


def test_run_writes_what_it_found(tmp_path: Path) -> None:
    document = run_one(tmp_path)
    (claim,) = document["claims"]
    assert (claim["id"], claim["verdict"]) == ("acks1-loses-with-the-leader", "true")
    found = claim["engines"]["simulation"]
    assert found["counts"]["lost"] > 0
    assert len(found["example"]["faults"]) == 1
    assert found["example"]["seed"] in document["timelines"]
    again = lab("show", "--results", str(tmp_path / "lab.json"), claim["id"])
    assert f"minikafka lab replay {found['example']['seed']}" in again.stdout
    replayed = lab("replay", found["example"]["seed"], "--json")
    assert json.loads(replayed.stdout)["counts"] == found["example"]["counts"]


def test_a_seed_is_replayed_equally() -> None:
    first, second = lab("replay", "17"), lab("replay", "17")
    assert first.exit_code == 0
    assert "fingerprint" in first.stdout
    assert first.stdout == second.stdout


def test_one_record_is_followed(tmp_path: Path) -> None:
    result = lab("replay", LOST_WITH_LEADER, "--record", "r1", "--html", str(tmp_path / "one.html"))
    assert result.exit_code == 0
    events = [
        line for line in result.stdout.splitlines() if line[:1] == " " and "fault" not in line
    ]
    assert events
    assert all("r1" in line for line in events)
    assert (tmp_path / "one.html").read_text().count("<script") == 4
    missing = lab("replay", LOST_WITH_LEADER, "--record", "r999")
    assert missing.exit_code == 1
    assert "no record 'r999'" in missing.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("replay", "nonsense"), "neither a number nor CELL@SEED"),
        (("replay", "nowhere@1"), "no cell of the matrix is called 'nowhere'"),
        (("run", "--claim", "nothing"), "there is no claim 'nothing'"),
        (("run", "--json", "/nowhere/lab.json"), "/nowhere is no directory"),
        (("show", "--results", __file__), "is not what `lab run --json` writes"),
    ],
)
def test_errors_name_what_was_wrong(words: tuple[str, ...], message: str) -> None:
    result = lab(*words)
    assert result.exit_code == 1
    assert message in result.output


def test_fingerprints_repeat() -> None:
    first = json.loads(lab("fingerprints", "3", "--json").stdout)
    assert first == json.loads(lab("fingerprints", "3", "--json").stdout)
    assert len(set(first)) == 3


def test_strikes_of_ones_own_happen_and_are_mended() -> None:
    for cell in (
        "p.acksall-idem-fly5_t.r3-m2_c.none_f.none",
        "p.acksall-idem-fly5_t.r3-m2_c.after-sync_f.none",
    ):
        own = "!0.1.kill.leader!0.2.cut.follower!0.4.slow.leader!0.5.pause.2!0.6.clock.1"
        replayed = json.loads(lab("replay", f"{cell}@5{own}", "--json").stdout)
        kinds = {event["kind"] for event in replayed["events"]}
        assert {"kill", "cut", "pause", "start", "heal", "resume"} <= kinds, cell
        assert replayed["counts"]["lost"] == 0
        assert replayed["scenario"] == f"{cell}@5{own}"
