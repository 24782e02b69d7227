"""Scenarios on real brokers of ours: what each guarantee loses, repeats and reorders."""

from __future__ import annotations

import pytest

from minikafka.lab.engine import Run
from minikafka.lab.matrix import Cell
from minikafka.lab.processes.engine import ProcessesEngine
from minikafka.lab.scenario import Scenario

IDEMPOTENT = "p.acksall-idem-fly5_t.r3-m2_c."
TRANSACTIONAL = "p.acksall-tx-fly5_t.r3-m2_c."
NOTHING = {"lost": 0, "repeated": 0, "reordered": 0}


def run(engine: ProcessesEngine, token: str) -> Run:
    return engine.run(Scenario.parse(token))


@pytest.mark.parametrize(
    "token",
    [
        "none_f.ack-lost@1",
        "none_f.request-lost@2",
        "none_f.leader-killed-after-append@0",
        "none_f.power-loss-one@0",
        "with-result_f.consumer-killed-between@0",
        "two-phase_f.consumer-killed-between@1",
        "with-result_f.consumer-paused@0",
    ],
)
def test_nothing_is_lost_or_repeated(engine: ProcessesEngine, token: str) -> None:
    found = run(engine, IDEMPOTENT + token)
    counts = found.counts._asdict()
    assert {name: counts[name] for name in NOTHING} == NOTHING
    assert found.counts.stored == found.counts.sent > 0
    assert len(found.faults) == 1 + int(token[-1])


@pytest.mark.parametrize(
    ("token", "what"),
    [
        ("p.acks0_t.r3-m2_c.none_f.request-lost@0", "lost"),
        ("p.acks1-retries_t.r3-m2_c.none_f.leader-killed-after-ack@0", "lost"),
        ("p.acksall-retries_t.r3-m2_c.none_f.ack-lost@0", "repeated"),
        ("p.acksall-retries-fly5_t.r3-m2_c.none_f.request-lost@0", "reordered"),
        ("p.acksall-retries_t.r3-m1_c.none_f.isr-shrunk-leader-lost@0", "lost"),
        (IDEMPOTENT + "none_f.power-loss-all@0", "lost"),
        (IDEMPOTENT + "auto_f.consumer-killed-between@0", "lost"),
        (IDEMPOTENT + "after-sync_f.consumer-killed-between@0", "repeated"),
        (TRANSACTIONAL + "after-sync_f.none@0", "aborted_read"),
    ],
)
def test_what_can_happen_is_shown(engine: ProcessesEngine, token: str, what: str) -> None:
    assert getattr(run(engine, token).counts, what) > 0


def test_a_committed_reader_sees_neither_aborted_nor_torn_transactions(
    engine: ProcessesEngine,
) -> None:
    counts = run(engine, TRANSACTIONAL + "after-sync-rc_f.producer-killed@0").counts
    assert counts.refused > 0
    assert (counts.aborted_read, counts.torn, counts.lost) == (0, 0, 0)


def test_what_is_synced_survives_the_loss_of_all_power(engine: ProcessesEngine) -> None:
    counts = run(engine, "p.acksall-idem-fly5_t.r3-m2-fsync_c.none_f.power-loss-all@0").counts
    assert (counts.lost, counts.repeated, counts.reordered) == (0, 0, 0)
    assert counts.stored == counts.sent > 0


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("java")
def test_a_spark_query_that_is_killed_loses_and_repeats_nothing(engine: ProcessesEngine) -> None:
    found = run(engine, IDEMPOTENT + "spark-sink_f.consumer-killed-between@0")
    assert [*found.faults] == [0]
    assert (found.counts.lost, found.counts.repeated) == (0, 0)
    assert found.counts.results == found.counts.stored > 0


def test_a_second_member_joins_and_leaves(engine: ProcessesEngine) -> None:
    counts = run(engine, IDEMPOTENT + "after-sync_f.rebalance@0").counts
    assert counts.lost == 0
    assert counts.results >= counts.stored > 0


def test_a_consumer_is_paused_once_whatever_the_seed(engine: ProcessesEngine) -> None:
    found = run(engine, IDEMPOTENT + "upsert_f.consumer-paused@2")
    assert [*found.faults] == [0]
    assert (found.counts.lost, found.counts.repeated) == (0, 0)


def test_faults_that_are_not_kept_do_not_happen(engine: ProcessesEngine) -> None:
    found = run(engine, "p.acksall-retries_t.r3-m2_c.none_f.ack-lost@2+1")
    assert [*found.faults] == [1]
    assert found.counts.repeated == 1


def test_a_run_has_a_timeline_and_measures(engine: ProcessesEngine) -> None:
    found = run(engine, IDEMPOTENT + "after-sync_f.none@0")
    document = found.timeline().to_json()
    times = [event["t"] for event in document["events"]]
    assert times == sorted(times)
    lanes = {lane["id"] for lane in document["lanes"]}
    assert {"producer", "node-1", "node-2", "node-3", "consumer-1"} <= lanes
    assert {event["lane"] for event in document["events"]} <= lanes
    record = document["records"]["r0"]
    assert record == {"fate": "trusted", "copies": 1, "results": 1, "offset": 0}
    assert set(found.measures) == {"ack_s", "commit_s", "lag_s"}


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (IDEMPOTENT + "spark-sink_f.rebalance", "in no group"),
        ("p.acksall_t.r1-m1_c.none_f.leader-paused", "needs several replicas"),
        (IDEMPOTENT + "transaction_f.none", "committed records only"),
    ],
)
def test_cells_that_cannot_be_run_are_named(
    engine: ProcessesEngine, cell: str, reason: str
) -> None:
    why_not = engine.why_not(Cell.parse(cell))
    assert why_not is not None
    assert reason in why_not
    with pytest.raises(ValueError, match=reason):
        run(engine, f"{cell}@0")
