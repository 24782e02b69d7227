"""The delivery patterns on Apache Kafka: killed workers lose and repeat only what they may."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import trio

from examples.delivery_patterns import crashes
from examples.delivery_patterns.run import is_as_promised
from examples.delivery_patterns.worker import PATTERNS, Job
from tests.peers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 2_000
CRASHES = 3


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_a_pattern_keeps_its_promise(
    apache_kafka: ApacheKafka, name: str, tmp_path: Path, pattern: str
) -> None:
    job = Job(apache_kafka.bootstrap, name, crashes.PARTITIONS, tmp_path)
    await crashes.fill_topic(job.bootstrap, name, RECORDS)
    crashed = await trio.to_thread.run_sync(
        crashes.crash_workers, pattern, job, RECORDS, CRASHES, Random(pattern)
    )
    await crashes.end_topic(job.bootstrap, name)
    await trio.to_thread.run_sync(crashes.finish, pattern, job)
    outcome = crashes.outcome_of(job, RECORDS, crashed)
    assert crashed == CRASHES
    assert is_as_promised(pattern, outcome)
    assert outcome.lost < RECORDS
