"""The comparison of clients: what each of them is asked, and that a loss cannot go unseen."""

import json
import sys
from dataclasses import asdict
from io import StringIO

import pytest

from benchmarks.load.client_job import (
    ClientJob,
    ClientOutcome,
    Clock,
    check_consumed,
    check_delivered,
    chunks,
    serve_client,
)
from benchmarks.processes import ProcessFailedError, run_load

JOB = ClientJob(
    work="count", bootstrap="nowhere:1", topic="t", partitions=1, records=2500, value_bytes=100
)


@pytest.mark.parametrize("records", [1, 999, 1000, 1001, 2500])
def test_the_chunks_hold_as_many_values_of_the_right_size(records: int) -> None:
    values = [value for chunk in chunks(JOB, records) for value in chunk]
    assert len(values) == records
    assert {len(value) for value in values} == {100}
    assert len(set(values)) == min(records, 1000)


def test_an_undelivered_record_fails_the_job() -> None:
    check_delivered(JOB, 2500)
    with pytest.raises(RuntimeError, match="2499 of 2500"):
        check_delivered(JOB, 2499)
    with pytest.raises(RuntimeError, match="no leader"):
        check_delivered(JOB, 2500, ["no leader"])


def test_a_missing_or_a_cut_record_fails_the_job() -> None:
    check_consumed(JOB, 2500)
    check_consumed(JOB, 2500, 250_000)
    with pytest.raises(RuntimeError, match="read 2501 records, not 2500"):
        check_consumed(JOB, 2501, 250_100)
    with pytest.raises(RuntimeError, match="249999 bytes"):
        check_consumed(JOB, 2500, 249_999)


def test_an_outcome_travels_from_process_to_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO(json.dumps(asdict(JOB))))
    serve_client({"count": lambda job: Clock().stop(job.records, [0.25, 0.25, 0.25])})
    outcome = ClientOutcome(**json.loads(capsys.readouterr().out))
    assert outcome.records == 2500
    assert list(outcome.latencies_seconds) == [0.25, 0.25]
    assert outcome.records_per_second == outcome.records / outcome.seconds
    assert 0 < outcome.resident_before_bytes <= outcome.resident_peak_bytes


@pytest.mark.parametrize(
    "module", ["client_minikafka", "client_confluent", "client_aiokafka", "client_kafka_python"]
)
def test_a_client_refuses_a_way_of_working_that_it_does_not_have(module: str) -> None:
    with pytest.raises(ProcessFailedError, match="KeyError: 'count'"):
        run_load(module, asdict(JOB))
