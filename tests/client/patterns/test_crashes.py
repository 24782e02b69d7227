"""Workers that are killed with SIGKILL: what each pattern loses and repeats, counted."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import trio

from examples.delivery_patterns import crashes
from examples.delivery_patterns.worker import PATTERNS, Job

RECORDS = 3_000
CRASHES = 5


async def outcome_of_crashes(
    pattern: str, bootstrap: str, topic: str, folder: Path
) -> crashes.Outcome:
    job = Job(bootstrap, topic, crashes.PARTITIONS, folder)
    dice = Random(pattern)
    await crashes.fill_topic(bootstrap, topic, RECORDS)
    crashed = await trio.to_thread.run_sync(
        crashes.crash_workers, pattern, job, RECORDS, CRASHES, dice
    )
    await crashes.end_topic(bootstrap, topic)
    await trio.to_thread.run_sync(crashes.finish, pattern, job)
    assert crashed == CRASHES
    return crashes.outcome_of(job, RECORDS, crashed)


async def test_at_most_once_loses_and_never_repeats(
    bootstrap: str, name: str, tmp_path: Path
) -> None:
    outcome = await outcome_of_crashes("at-most-once", bootstrap, name, tmp_path)
    assert outcome.lost > 0
    assert outcome.repeated == 0


@pytest.mark.parametrize("pattern", ["auto-commit", "at-least-once", "at-least-once-in-background"])
async def test_at_least_once_repeats_and_never_loses(
    bootstrap: str, name: str, tmp_path: Path, pattern: str
) -> None:
    outcome = await outcome_of_crashes(pattern, bootstrap, name, tmp_path)
    assert outcome.lost == 0
    assert outcome.repeated > 0


@pytest.mark.parametrize(
    "pattern", ["at-least-once-upserting", "exactly-once", "consume-transform-produce"]
)
async def test_exactly_once_neither_loses_nor_repeats(
    bootstrap: str, name: str, tmp_path: Path, pattern: str
) -> None:
    outcome = await outcome_of_crashes(pattern, bootstrap, name, tmp_path)
    assert (outcome.lost, outcome.repeated) == (0, 0)


def test_every_pattern_of_the_example_is_tested_here() -> None:
    assert list(PATTERNS) == [
        "auto-commit",
        "at-most-once",
        "at-least-once",
        "at-least-once-in-background",
        "at-least-once-upserting",
        "exactly-once",
        "consume-transform-produce",
    ]
