"""The delivery patterns on Apache Kafka: workers that are killed lose and repeat what they may."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import trio

from examples.delivery_patterns.crashes import (
    PARTITIONS,
    crash_workers,
    end_topic,
    fill_topic,
    finish,
    outcome_of,
)
from examples.delivery_patterns.run import is_as_promised
from examples.delivery_patterns.worker import PATTERNS, Job
from tests.peers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 2_000
CRASHES = 3


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_a_pattern_keeps_its_promise(
    apache_kafka: ApacheKafka, topic: str, tmp_path: Path, pattern: str
) -> None:
    job = Job(apache_kafka.bootstrap, topic, PARTITIONS, tmp_path)
    await fill_topic(job.bootstrap, topic, RECORDS)
    crashed = await trio.to_thread.run_sync(
        crash_workers, pattern, job, RECORDS, CRASHES, Random(pattern)
    )
    await end_topic(job.bootstrap, topic)
    await trio.to_thread.run_sync(finish, pattern, job)
    outcome = outcome_of(job, RECORDS, crashed)
    assert crashed == CRASHES
    assert is_as_promised(pattern, outcome)
    assert outcome.lost < RECORDS
