"""Read, send, commit, exactly once: a topic is copied while clients and brokers are killed.

    MINIKAFKA_COPY_RECORDS=200000 MINIKAFKA_COPY_KILL_EVERY_S=3 MINIKAFKA_FAULTS_SEED=7 \
        pytest -s tests/faults/test_copy_job.py

makes a longer job, with a process killed every three seconds; it prints what came out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import monotonic

import pytest

from minikafka import testing
from tests.faults.campaign import rounds, with_seed
from tests.faults.cluster_nemesis import Nemesis
from tests.faults.copy_job import copying, kill_by_progress, kill_by_the_clock
from tests.faults.copy_workers import WORKERS
from tests.kit.live import check_logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36_000)]

_RECORDS = int(os.environ.get("MINIKAFKA_COPY_RECORDS", "20000"))
_KILL_EVERY_S = float(os.environ.get("MINIKAFKA_COPY_KILL_EVERY_S", "0"))
_KILLS = 4
_HUNG_RECORDS = 10_000
_SETTINGS = {"transaction.state.log.num.partitions": "3", "group.min.session.timeout.ms": "1000"}


@pytest.mark.parametrize("kind", WORKERS)
@with_seed
def test_a_copy_has_everything_once_and_in_order(tmp_path: Path, kind: str, seed: int) -> None:
    with (
        testing.cluster(3, _SETTINGS, directory=tmp_path / "cluster") as cluster,
        copying(cluster, kind, _RECORDS, tmp_path) as job,
    ):
        nemesis = Nemesis(cluster, seed)
        begin = monotonic()
        if _KILL_EVERY_S:
            kill_by_the_clock(job, nemesis, _KILL_EVERY_S)
        else:
            kill_by_progress(job, nemesis, rounds(_KILLS))
        job.wait_until_seen(_RECORDS)
        verdict = job.finish(nemesis, monotonic() - begin)
        sys.stdout.write(f"{kind}: {verdict}\n")
        assert verdict.is_good, verdict
        check_logs(cluster)


@pytest.mark.parametrize("kind", WORKERS)
def test_a_worker_that_wakes_up_after_it_was_replaced_does_no_harm(
    tmp_path: Path, kind: str
) -> None:
    with (
        testing.cluster(3, _SETTINGS, directory=tmp_path / "cluster") as cluster,
        copying(cluster, kind, _HUNG_RECORDS, tmp_path) as job,
    ):
        job.wait_until_seen(_HUNG_RECORDS // 4)
        job.pause_worker(0)
        job.wait_until_seen(_HUNG_RECORDS)
        job.resume_worker(0)
        job.add(_HUNG_RECORDS)
        job.wait_until_seen(2 * _HUNG_RECORDS)
        verdict = job.finish(Nemesis(cluster, 0), 0.0)
        assert verdict.is_good, verdict
        check_logs(cluster)
