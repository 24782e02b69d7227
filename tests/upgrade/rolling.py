"""A rolling upgrade of three brokers under load, from an old commit to the code as it is here.

    make upgrade-test OLD=113e00c

The old code is checked out of the history beside this one, so this is no part of the test suite: a
shallow clone has no history. What the suite keeps instead are golden files (``tests/golden/rpc``).

Three brokers run the old code. Clients write with idempotence and acks=all, others in transactions,
and read. Then, one broker after the other: it stops, starts with the new code, catches up, and the
load goes on; in between, the controller is killed while old and new brokers run side by side. At
the end everything is read once more, and the histories are judged: no acknowledged record is lost
or duplicated or out of order, and transactions are seen as a whole or not at all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from minikafka import testing
from minikafka_client import NewTopic
from minikafka_client.sync import AdminClient
from tests.faults.cluster_campaign import under_load
from tests.faults.cluster_load import Client
from tests.faults.transaction_clients import ConfluentTransactionalWriter, OurTransactionalWriter
from tests.faults.transaction_load import (
    CommittedReader,
    StoredReader,
    TransactionalLoad,
    note_readers,
)
from tests.kit.live import check_logs

ROOT = Path(__file__).resolve().parents[2]
TOPIC, PARTITIONS = "moved", 3
GO_ON_RECORDS = 20


@contextmanager
def checkout(commit: str) -> Generator[Path]:
    """The project as it was."""
    with tempfile.TemporaryDirectory(prefix="minikafka-old-") as directory:
        path = Path(directory) / "code"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(path), commit], check=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def run_brokers_from(code: Path) -> None:
    """Let the brokers that are started from now on run some code."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(code), str(code / "client")])
    os.environ["PYTHONSAFEPATH"] = "1"  # not what is in the current directory
    where = "import minikafka, minikafka_client; print(minikafka.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert Path(found).parent.parent == code, f"brokers would run {found}, not {code}"


@contextmanager
def transactions(bootstrap: str, seed: int) -> Generator[TransactionalLoad]:
    """Clients that read and write in transactions."""
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    load = TransactionalLoad(bootstrap, {TOPIC: PARTITIONS})
    clients: list[Client] = [
        OurTransactionalWriter(load, "our transactions", TOPIC, seed),
        ConfluentTransactionalWriter(load, "confluent transactions", TOPIC, seed),
        CommittedReader(load, "reader of what is committed"),
        StoredReader(load, "reader of everything"),
    ]
    note_readers(load, clients)
    load.start(clients)
    try:
        yield load
    finally:
        load.over.set()


def upgrade(old: Path, directory: Path, seed: int) -> None:
    """Upgrade a cluster under load, and judge what its clients saw."""
    run_brokers_from(old)
    with (
        testing.cluster(3, directory=directory / "cluster") as cluster,
        under_load(cluster, directory, seed) as broken,
        transactions(cluster.bootstrap, seed) as moved,
    ):
        nemesis = broken.nemesis

        def go_on(what: str) -> None:
            broken.load.go_on(GO_ON_RECORDS)
            moved.go_on(GO_ON_RECORDS)
            nemesis.wait_until_healthy()
            sys.stdout.write(f"{what}\n")
            sys.stdout.flush()

        go_on("three old brokers")
        run_brokers_from(ROOT)
        upgraded: set[int] = set()
        for node in (3, 1, 2):
            cluster.stop(node)
            cluster.start(node)
            upgraded.add(node)
            go_on(f"brokers {upgraded} are new")
            if len(upgraded) < 3:
                controller = nemesis.controller()
                cluster.kill(controller)
                broken.load.go_on(GO_ON_RECORDS)
                run_brokers_from(ROOT if controller in upgraded else old)
                cluster.start(controller)
                go_on(f"the controller, broker {controller}, was killed and is back")
                run_brokers_from(ROOT)
        moved.finish()
        for report in moved.judge_both(directory):
            sys.stdout.write(f"transactions: {report}\n")
            assert report.is_good
        broken.check_promises()
        report = broken.load.judge(directory)
        sys.stdout.write(f"acks=all: {report}\n")
        check_logs(cluster)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="a rolling upgrade of three brokers under load")
    parser.add_argument("old", help="the commit that the brokers run at first")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with checkout(options.old) as old, tempfile.TemporaryDirectory() as directory:
        upgrade(old, Path(directory), options.seed)
    sys.stdout.write("the upgrade lost nothing and duplicated nothing\n")


if __name__ == "__main__":
    main()
