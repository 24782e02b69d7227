"""The transactional workloads: what a client is asked, and that a loss cannot go unseen."""

import json
import sys
from dataclasses import asdict, replace
from io import StringIO

import pytest

from benchmarks.load.transactions_job import (
    Stopwatch,
    TransactionsJob,
    TransactionsOutcome,
    check_sent,
    serve_transactions,
)
from benchmarks.processes import ProcessFailedError, run_load

JOB = TransactionsJob(
    work="transactions",
    bootstrap="nowhere:1",
    topic="t",
    partitions=2,
    transactions=10,
    records=100,
    value_bytes=50,
)


def test_a_portion_has_as_many_values_of_the_right_size() -> None:
    values = JOB.values()
    assert len(set(values)) == 100
    assert {len(value) for value in values} == {50}


def test_a_missing_or_a_doubled_record_fails_the_job() -> None:
    check_sent(JOB, [750, 750])
    check_sent(JOB, [765, 765])  # a marker in each partition for each transaction
    with pytest.raises(RuntimeError, match="add up to 1499"):
        check_sent(JOB, [749, 750])
    with pytest.raises(RuntimeError, match="at most 30 markers"):
        check_sent(JOB, [765, 766])


def test_without_transactions_there_are_no_markers() -> None:
    plain = replace(JOB, work="flushes")
    check_sent(plain, [750, 750])
    with pytest.raises(RuntimeError, match="add up to 1501"):
        check_sent(plain, [751, 750])


def test_an_outcome_travels_from_process_to_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(job: TransactionsJob) -> TransactionsOutcome:
        stopwatch = Stopwatch()
        for seconds in (0.25, 0.5, 8.0):
            stopwatch.step("commit", seconds)
        return stopwatch.stop(job.transactions)

    monkeypatch.setattr(sys, "stdin", StringIO(json.dumps(asdict(JOB))))
    serve_transactions({"transactions": work})
    outcome = TransactionsOutcome(**json.loads(capsys.readouterr().out))
    assert outcome.transactions == 10
    assert outcome.median_seconds == {"commit": 0.5}


@pytest.mark.parametrize("module", ["transactions_minikafka", "transactions_confluent"])
def test_a_client_refuses_a_way_of_working_that_it_does_not_have(module: str) -> None:
    with pytest.raises(ProcessFailedError, match="KeyError: 'juggle'"):
        run_load(module, asdict(replace(JOB, work="juggle")))
