"""Verification of a cluster that is only known by its address."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from itertools import islice, repeat
from pathlib import Path
from random import Random

import pytest

from minikafka.lab.matrix import Fault
from minikafka.lab.processes import verify as module
from minikafka.lab.processes.engine import ProcessesEngine
from minikafka.lab.processes.minikafka_target import MinikafkaTarget
from minikafka.lab.processes.strikes import NEEDS
from minikafka.lab.processes.verify import Progress, breaches_of, draw, engine_for, verify
from minikafka.lab.processes.verify_target import Hooks
from minikafka.lab.scenario import Scenario

BROKEN_BROKER = Path(__file__).with_name("broken_broker.py")
IDEMPOTENT = "p.acksall-idem-fly5_t.r3-m2_c.none_f."
COMMITTED = "p.acksall-tx-fly5_t.r3-m2_c.after-sync-rc_f."


@pytest.fixture
def outside(engine: ProcessesEngine) -> Generator[ProcessesEngine]:
    """An engine that knows the address of the shared cluster, and nothing else."""
    outside = engine_for("verify", bootstrap=engine.bootstrap)
    yield outside
    outside.close()


@pytest.mark.parametrize(
    ("token", "what"),
    [
        ("p.acksall-retries_t.r3-m2_c.none_f.ack-lost@0", "repeated"),
        ("p.acksall-retries-fly5_t.r3-m2_c.none_f.request-lost@0", "reordered"),
        ("p.acks0_t.r3-m2_c.none_f.request-lost@0", "lost"),
    ],
)
def test_the_proxy_loses_what_it_is_told(outside: ProcessesEngine, token: str, what: str) -> None:
    assert getattr(outside.run(Scenario.parse(token)).counts, what) > 0


@pytest.mark.parametrize("fault", ["ack-lost", "request-lost"])
def test_the_proxy_does_no_harm_to_an_idempotent_producer(
    outside: ProcessesEngine, fault: str
) -> None:
    scenario = Scenario.parse(f"{IDEMPOTENT}{fault}@0")
    assert breaches_of(scenario, outside.run(scenario).counts, []) == []


def test_without_hooks_only_clients_and_connections_suffer(outside: ProcessesEngine) -> None:
    dice = Random(1)
    faults = {draw(outside, dice).cell.fault for _ in range(30)}
    assert faults & set(NEEDS) <= {Fault.REQUEST_LOST, Fault.ACK_LOST}
    assert faults - set(NEEDS)


def test_what_decides_claims_comes_first_and_each_kind_of_fault_soon(
    engine: ProcessesEngine,
) -> None:
    first = [one.cell for one in islice(module.scenarios_for(engine, Random(1)), 9)]
    assert all(cell.fault in {Fault.ACK_LOST, Fault.REQUEST_LOST} for cell in first[::3])
    assert all(cell.fault in NEEDS for cell in first[1::3])
    assert not any(cell.fault in NEEDS for cell in first[2::3])
    assert first[1].fault is Fault.LEADER_KILLED_AFTER_ACK
    assert first[1].consumer is None


def test_nothing_is_broken(outside: ProcessesEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Progress] = []
    scenario = Scenario.parse(f"{IDEMPOTENT}ack-lost@0")
    monkeypatch.setattr(module, "scenarios_for", lambda *_: repeat(scenario))
    found = verify(outside, seconds=60, runs_max=2, progress=told.append)
    assert (found.exit_code, found.breaches, found.failures) == (0, [], [])
    assert found.runs == 2
    assert [one.runs for one in told] == [0, 1]


def test_no_run_is_no_verdict(outside: ProcessesEngine) -> None:
    assert verify(outside, seconds=0).exit_code == 2


def test_a_hook_that_fails_ends_it(
    engine: ProcessesEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = Hooks.parse(["pause=echo it is not mine >&2; exit 9", "resume=true"])
    outside = engine_for("verify", bootstrap=engine.bootstrap, hooks=hooks)
    scenario = Scenario.parse(f"{IDEMPOTENT}leader-paused@0")
    monkeypatch.setattr(module, "scenarios_for", lambda *_: repeat(scenario))
    found = verify(outside, seconds=60)
    outside.close()
    assert found.exit_code == 2
    assert "ended with 9 and said it is not mine" in found.failures[0]


@pytest.mark.parametrize(
    ("guard", "token", "claim"),
    [
        (
            "repeats-what-it-knows",
            f"{IDEMPOTENT}ack-lost@0",
            "idempotent-exactly-once-in-the-log",
        ),
        (
            "acknowledges-at-once",
            f"{IDEMPOTENT}leader-killed-after-ack@0",
            "idempotent-exactly-once-in-the-log",
        ),
        ("shows-open-transactions", f"{COMMITTED}none@0", "read-committed-is-whole"),
        ("forgets-what-was-aborted", f"{COMMITTED}none@0", "read-committed-is-whole"),
    ],
)
def test_a_broken_broker_is_found(
    guard: str, token: str, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    prefix = [sys.executable, str(BROKEN_BROKER), guard]
    engine = ProcessesEngine(MinikafkaTarget(prefix=prefix))
    scenario = Scenario.parse(token)
    monkeypatch.setattr(module, "scenarios_for", lambda *_: repeat(scenario))
    try:
        found = verify(engine, seconds=60, runs_max=3)
    finally:
        engine.close()
    assert found.exit_code == 1
    assert claim in {breach.promise for breach in found.breaches}
