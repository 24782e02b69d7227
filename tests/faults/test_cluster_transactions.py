"""Transactions while coordinators and leaders are killed: committed ones are seen, as a whole.

    MINIKAFKA_FAULTS_SEED=7 MINIKAFKA_FAULTS_ROUNDS=50 \
        pytest tests/faults/test_cluster_transactions.py

makes another campaign and a longer one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka import testing
from minikafka.testing import Cluster
from minikafka_client import NewTopic
from minikafka_client.sync import AdminClient
from tests.faults import transaction_clients
from tests.faults.campaign import rounds, with_seed
from tests.faults.cluster_clients import ConfluentReader
from tests.faults.cluster_load import Client
from tests.faults.cluster_nemesis import Nemesis
from tests.faults.transaction_load import (
    CommittedReader,
    ConfluentStoredReader,
    StoredReader,
    TransactionalLoad,
    note_readers,
)
from tests.kit.live import check_logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36_000)]

TOPIC = "moved"
PARTITIONS = 3
COORDINATORS = ("__transaction_state", 3)
_ROUNDS = 3
_GO_ON = 10
_SETTINGS = {
    "transaction.state.log.num.partitions": str(COORDINATORS[1]),
    "transaction.two.phase.commit.enable": "true",
}

Disaster = Callable[[Cluster, Nemesis, TransactionalLoad], None]


def crash_a_coordinator(cluster: Cluster, nemesis: Nemesis, load: TransactionalLoad) -> None:
    """Another one completes what it had decided."""
    topic, partitions = COORDINATORS
    victim = nemesis.leader_of((topic, nemesis.dice.randrange(partitions)))
    cluster.kill(victim)
    load.go_on(_GO_ON)
    cluster.start(victim)
    nemesis.wait_until_healthy()


def crash_a_leader(cluster: Cluster, nemesis: Nemesis, load: TransactionalLoad) -> None:
    """The leader of a partition that is written to; it is restarted immediately."""
    del load
    victim = nemesis.leader_of((TOPIC, nemesis.dice.randrange(PARTITIONS)))
    cluster.kill(victim)
    cluster.start(victim)


def crash_all(cluster: Cluster, nemesis: Nemesis, load: TransactionalLoad) -> None:
    del nemesis, load
    cluster.kill()
    cluster.start()


def crash_one_after_the_other(cluster: Cluster, nemesis: Nemesis, load: TransactionalLoad) -> None:
    """Each as soon as the previous one serves again, in sync or not."""
    del cluster, load
    for victim in nemesis.dice.sample([1, 2, 3], 3):
        nemesis.crash(victim)


DISASTERS: list[Disaster] = [
    crash_a_coordinator,
    crash_a_leader,
    crash_all,
    crash_one_after_the_other,
]


@with_seed
def test_committed_transactions_are_seen_whole_and_others_never(tmp_path: Path, seed: int) -> None:
    with testing.cluster(3, _SETTINGS, directory=tmp_path / "cluster") as cluster:
        with AdminClient(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
        load = TransactionalLoad(cluster.bootstrap, {TOPIC: PARTITIONS})
        writers = [
            transaction_clients.OurTransactionalWriter(load, "ours", TOPIC, seed),
            transaction_clients.OurTransactionalWriter(load, "ours, too", TOPIC, seed),
            transaction_clients.OurPreparingWriter(load, "ours in two phases", TOPIC, seed),
            transaction_clients.ConfluentTransactionalWriter(load, "confluent", TOPIC, seed),
        ]
        clients: list[Client] = [
            *writers,
            CommittedReader(load, "our reader of what is committed"),
            ConfluentReader(load, "confluent reader of what is committed"),
            StoredReader(load, "our reader of everything"),
            ConfluentStoredReader(load, "confluent reader of everything"),
        ]
        note_readers(load, clients)
        load.start(clients)
        nemesis = Nemesis(cluster, seed)
        try:
            load.go_on(_GO_ON)
            for number in range(rounds(_ROUNDS)):
                DISASTERS[number % len(DISASTERS)](cluster, nemesis, load)
                load.go_on(_GO_ON)
            nemesis.wait_until_healthy()
            load.finish()
        finally:
            load.over.set()
        committed, stored = load.judge_both(tmp_path)
        for writer in writers:
            counts = f"{writer.committed} committed, {writer.aborted} aborted, {writer.unknown} ?"
            sys.stdout.write(f"{writer.name}: {counts} {writer.failed[:3]}\n")
        assert committed.is_good, f"{committed}\nthe history is in {tmp_path}"
        assert stored.is_good, f"{stored}\nthe history is in {tmp_path}"
        assert all(writer.committed and writer.aborted for writer in writers)
        check_logs(cluster)
