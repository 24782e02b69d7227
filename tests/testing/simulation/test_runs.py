"""The simulator of programs: what follows from a seed, what is judged, what is shrunk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from random import Random, random
from typing import Any

import pytest
import trio

from minikafka.testing import simulation
from minikafka.testing.simulation import (
    Faults,
    Isolate,
    KillBroker,
    KillProcess,
    LoseAcknowledgement,
    LoseRequest,
    PauseProcess,
)
from minikafka.testing.simulation.network import pass_time
from minikafka_client import Consumer, ConsumerRecord, Producer
from minikafka_client.core.fetched import AbortedTransactions, ConsumedBatch

Process = Callable[[simulation.Cluster], Awaitable[object]]


async def produce(cluster: simulation.Cluster, count: int = 5, pause_s: float = 0.2) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            await producer.send_and_wait("t", b"%d" % number)
            await pass_time(pause_s)


async def consume(cluster: simulation.Cluster, **options: object) -> None:
    async with Consumer(
        cluster.bootstrap, group_id="g", auto_offset_reset="earliest", session_timeout_ms=6_000
    ) as consumer:
        await consumer.subscribe(["t"])
        async for record in consumer:
            cluster.processed(record)


def program_of(**processes: Process) -> simulation.Program:
    async def program(cluster: simulation.Cluster) -> None:
        await cluster.create_topic("t")
        for name, process in processes.items():
            cluster.start_soon(name, process)

    return program


def kinds(report: simulation.Report) -> set[str]:
    return {one.kind for one in report.violations}


# --- a seed ---------------------------------------------------------------------------------------


async def seeded(cluster: simulation.Cluster) -> None:
    cluster.note(f"{random()} {uuid.uuid4()} {time.time()} {cluster.random.random()}")
    await produce(cluster)


SEEDED = program_of(producer=seeded, consumer=consume)


def test_a_seed_repeats_its_run_step_by_step_in_another_process() -> None:
    report = simulation.run(SEEDED, seed=3)
    assert report.is_good, report
    assert report.counts["processed"] >= 5
    code = (
        "from tests.testing.simulation.test_runs import *; "
        "print(simulation.run(SEEDED, seed=3).fingerprint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == report.fingerprint
    assert simulation.run(SEEDED, seed=4).fingerprint != report.fingerprint


def test_a_schedule_of_a_report_repeats_its_run() -> None:
    report = simulation.run(SEEDED, seed=3)
    again = simulation.run(SEEDED, seed=3, faults=report.faults)
    assert again.fingerprint == report.fingerprint


def test_clocks_and_randomness_are_real_ones_after_a_run() -> None:
    before = time.time()
    simulation.run(program_of(producer=produce), faults=())
    assert time.time() >= before
    assert uuid.uuid4() != uuid.uuid4()


# --- faults ---------------------------------------------------------------------------------------


def test_a_killed_process_runs_no_further_line_and_starts_again() -> None:
    lines: list[str] = []

    async def process(cluster: simulation.Cluster) -> None:
        lines.append("starts")
        try:
            await pass_time(1.5)
            lines.append("is done")
        finally:
            lines.append("leaves")

    kill = KillProcess(at_s=1.0, for_s=2.0, process="p")
    report = simulation.run(program_of(p=process, other=produce), faults=[kill])
    assert report.is_good, report
    assert lines[:4] == [
        "starts",
        "starts",
        "is done",
        "leaves",
    ]  # the first life leaves at the end
    assert lines[4:] == ["leaves"]
    assert "p starts again" in report.story


def test_a_paused_process_finds_that_time_has_passed() -> None:
    times: list[float] = []

    async def process(cluster: simulation.Cluster) -> None:
        for _ in range(30):
            times.append(trio.current_time())
            await pass_time(0.1)

    pause = PauseProcess(at_s=1.0, for_s=5.0, process="p")
    simulation.run(program_of(p=process), faults=[pause])
    steps = [later - earlier for earlier, later in pairwise(times)]
    assert max(steps) == pytest.approx(5.0, abs=0.2)
    assert sorted(steps)[-2] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "fault",
    [
        LoseRequest(at_s=0.5, process="producer", api=0),
        LoseAcknowledgement(at_s=0.5, process="producer", api=0),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_what_gets_lost_is_sent_again_and_stored_once(fault: simulation.Fault) -> None:
    report = simulation.run(program_of(producer=produce), faults=[fault], guarantee="exactly_once")
    assert report.is_good, report
    assert report.counts["acknowledged"] == 5


def test_a_process_that_is_cut_off_waits_until_the_network_is_healed() -> None:
    brokers = ("broker1", "broker2", "broker3")
    cut = Isolate(at_s=0.3, for_s=4.0, sources=("producer",), targets=brokers)
    calm = simulation.run(program_of(producer=produce), faults=())
    report = simulation.run(program_of(producer=produce), faults=[cut])
    assert report.is_good, report
    assert report.simulated_s > calm.simulated_s + 2.0


def test_a_fault_that_cannot_be_is_refused() -> None:
    with pytest.raises(BaseExceptionGroup) as refused:
        simulation.run(program_of(p=produce), faults=[KillProcess(at_s=0.1, process="q")])
    assert "there is no process 'q' (yet); there are: p" in repr(refused.value)
    with pytest.raises(ValueError, match="these faults need processes"):
        Faults(kinds=[KillProcess]).draw(Random(0), [])


# --- judgement ------------------------------------------------------------------------------------


def test_a_record_that_acks_1_lost_with_its_leader_is_lost() -> None:
    async def carelessly(cluster: simulation.Cluster) -> None:
        async with Producer(cluster.bootstrap, acks=1, enable_idempotence=False) as producer:
            for number in range(100):
                await producer.send_and_wait("t", b"%d" % number)
                await pass_time(0.02)

    def faults(leader: int) -> list[simulation.Fault]:
        others = tuple(f"broker{one}" for one in (1, 2, 3) if one != leader)
        return [
            Isolate(at_s=0.5, for_s=8.0, sources=(f"broker{leader}",), targets=others),
        ]

    reports = [
        simulation.run(program_of(producer=carelessly), faults=faults(one)) for one in (1, 2, 3)
    ]
    found = [one for one in reports if not one.is_good]
    assert found
    assert kinds(found[0]) == {"lost"}
    assert "was acknowledged to producer at offset" in str(found[0].violations[0])
    assert "* acknowledged to producer at offset" in found[0].story


def test_what_is_never_processed_is_lost() -> None:
    async def forgetfully(cluster: simulation.Cluster) -> None:
        async with Consumer(
            cluster.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe(["t"])
            async for record in consumer:
                if record.offset != 2:
                    cluster.processed(record)

    program = program_of(producer=produce, consumer=forgetfully)
    report = simulation.run(program, faults=())
    assert [(one.kind, one.offset) for one in report.violations] == [("lost", 2)]
    assert "* consumed by consumer" in report.story
    assert simulation.run(program, faults=(), guarantee="at_most_once").is_good


def test_what_is_processed_twice_is_duplicated_where_once_is_claimed() -> None:
    async def twice(cluster: simulation.Cluster) -> None:
        async with Consumer(
            cluster.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe(["t"])
            async for record in consumer:
                cluster.processed(record)
                if record.offset == 1:
                    cluster.processed(record)

    program = program_of(producer=produce, consumer=twice)
    report = simulation.run(program, faults=(), guarantee="exactly_once")
    assert [(one.kind, one.offset) for one in report.violations] == [("duplicated", 1)]
    assert simulation.run(program, faults=(), guarantee="at_least_once").is_good


def test_records_that_are_processed_out_of_order_are_reordered_unless_none_is_claimed() -> None:
    async def backwards(cluster: simulation.Cluster) -> None:
        async with Consumer(
            cluster.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe(["t"])
            records = [await anext(aiter(consumer)) for _ in range(5)]
            for record in reversed(records):
                cluster.processed(record)

    program = program_of(producer=produce, consumer=backwards)
    assert kinds(simulation.run(program, faults=())) == {"reordered"}
    assert simulation.run(program, faults=(), in_order=False).is_good


def test_an_error_of_the_program_is_a_crash_with_its_story() -> None:
    async def wrongly(cluster: simulation.Cluster) -> None:
        await pass_time(1)
        raise LookupError("no such order")

    report = simulation.run(program_of(p=wrongly), faults=())
    assert kinds(report) == {"crash"}
    assert "p: LookupError: no such order" in report.story


# --- shrinking ------------------------------------------------------------------------------------


def test_a_failure_that_needs_no_fault_is_shrunk_to_none() -> None:
    async def never(cluster: simulation.Cluster) -> None:
        raise LookupError

    with pytest.raises(simulation.SimulationFailed) as failed:
        simulation.check(program_of(p=never), seeds=1)
    assert failed.value.report.faults == ()


def test_a_failure_is_shrunk_to_the_faults_that_matter() -> None:
    starts = 0

    async def once(cluster: simulation.Cluster) -> None:
        nonlocal starts
        starts += 1
        if starts > 1:
            raise LookupError("a second life")
        await pass_time(20)

    def program() -> simulation.Program:
        async def fresh(cluster: simulation.Cluster) -> None:
            nonlocal starts
            starts = 0
            cluster.start_soon("p", once)

        return fresh

    faults = [
        KillBroker(at_s=0.5, for_s=1.0, broker=1),
        KillProcess(at_s=1.0, for_s=1.0, process="p"),
        PauseProcess(at_s=3.0, for_s=1.0, process="p"),
        KillBroker(at_s=4.0, for_s=1.0, broker=2),
    ]
    report = simulation.shrink(simulation.run(program(), faults=faults))
    assert [type(one) for one in report.faults] == [KillProcess]
    assert report.faults[0].for_s < 1.0
    assert "with 1 of its 4 faults" in report.story


# --- what consumers see --------------------------------------------------------------------------


async def read_committed(cluster: simulation.Cluster) -> None:
    async with Consumer(
        cluster.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        await consumer.subscribe(["t"])
        async for _ in consumer:
            pass


async def commit_and_abort(cluster: simulation.Cluster) -> None:
    async with Producer(cluster.bootstrap, transactional_id="x") as producer:
        for number in range(6):
            with suppress(LookupError):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"%d" % number)
                    if number % 2:
                        raise LookupError("abort it")


def test_a_consumer_that_returns_aborted_records_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = program_of(producer=commit_and_abort, consumer=read_committed)
    report = simulation.run(program, faults=(), guarantee="exactly_once")
    assert report.is_good, report
    assert report.counts["consumed"] == 3
    monkeypatch.setattr(AbortedTransactions, "hides", lambda _, header, __: header.is_control)
    report = simulation.run(program, faults=(), guarantee="exactly_once")
    assert "aborted read" in kinds(report)


def test_a_consumer_that_skips_records_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    records: Any = vars(ConsumedBatch)["records"]

    def all_but_one(run: ConsumedBatch) -> list[ConsumerRecord]:
        return [one for one in records.func(run) if one.offset != 2]

    skipping = property(all_but_one)
    monkeypatch.setattr(ConsumedBatch, "records", skipping)
    program = program_of(producer=produce, consumer=read_committed)
    assert kinds(simulation.run(program, faults=())) == {"torn read"}


# --- other libraries -----------------------------------------------------------------------------


def test_any_connection_of_trio_is_a_simulated_one() -> None:
    answers: list[bytes] = []

    async def ask(cluster: simulation.Cluster) -> None:
        stream = await trio.open_tcp_stream("broker1", 9092)
        async with stream:
            await stream.send_all(bytes.fromhex("0000000a 0012 0000 00000007 0000"))
            answers.append(await stream.receive_some(8))

    simulation.run(program_of(p=ask), faults=())
    assert answers[0][4:] == (7).to_bytes(4, "big")
