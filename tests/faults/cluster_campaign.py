"""A cluster under load, faults, and a check at the end."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from minikafka import testing
from minikafka.testing.history.anomalies import Anomaly
from minikafka_client import NewTopic
from minikafka_client.sync import AdminClient
from tests.faults import cluster_clients
from tests.faults.cluster_load import ClusterLoad
from tests.faults.cluster_nemesis import Nemesis
from tests.kit.live import check_logs

TOPIC = "kept"
PARTITIONS = 3
FIRST = (TOPIC, 0)

# A broker that hangs or is cut off is noticed only by its silence.
IMPATIENT = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
}
GO_ON_RECORDS = 20
"""What clients have to get done before a campaign goes on."""

RETRIES_SHOW = (Anomaly.DUPLICATE, Anomaly.NONMONOTONIC_SEND, Anomaly.INCONSISTENT_OFFSETS)
"""What a producer without idempotence may show: a batch twice, or behind the one after it. The
acknowledgement is then one of the second copy."""


@dataclass(frozen=True)
class Broken:
    """The parts of a campaign.

    Attributes:
        cluster: three brokers.
        nemesis: breaks them.
        load: clients at work on `TOPIC`.
        directory: for what has to be kept.
    """

    cluster: testing.Cluster
    nemesis: Nemesis
    load: ClusterLoad
    directory: Path

    def check_promises(self, allowed: Collection[Anomaly] = ()) -> None:
        """Heal, let all clients finish, and check every promise."""
        self.nemesis.wait_until_healthy()
        self.load.go_on(5)
        self.load.finish()
        report = self.load.judge(self.directory, allowed=allowed)
        assert report.is_good, f"{report}\nthe history is in {self.directory}"
        assert report.committed_writes > 0
        errors = {writer.name: writer.failed for writer in self.load.writers if writer.failed}
        assert not errors, f"producers saw failures: {errors}"
        check_logs(self.cluster)


@contextmanager
def broken_cluster(
    directory: Path,
    seed: int,
    *,
    settings: Mapping[str, str] | None = None,
    is_idempotent: bool = True,
) -> Generator[Broken]:
    """A cluster under load, for a block; three replicas, two of which acks=all needs."""
    with (
        testing.cluster(3, settings, directory=directory / "cluster") as cluster,
        under_load(cluster, directory, seed, is_idempotent=is_idempotent) as broken,
    ):
        yield broken


@contextmanager
def under_load(
    cluster: testing.Cluster, directory: Path, seed: int, *, is_idempotent: bool = True
) -> Generator[Broken]:
    """Put a load on a running cluster; without idempotence also one with acks=1."""
    with AdminClient(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    load = ClusterLoad(cluster.bootstrap, {TOPIC: PARTITIONS})
    clients = [
        cluster_clients.OurWriter(load, "our writer", TOPIC, is_idempotent=is_idempotent),
        cluster_clients.ConfluentWriter(
            load, "confluent writer", TOPIC, is_idempotent=is_idempotent
        ),
        cluster_clients.OurReader(load, "our reader"),
        cluster_clients.ConfluentReader(load, "confluent reader"),
        cluster_clients.Committer(load, "committer", FIRST),
    ]
    if not is_idempotent:
        careless = (
            ("our careless writer", cluster_clients.OurWriter),
            ("confluent careless writer", cluster_clients.ConfluentWriter),
        )
        clients += [
            kind(load, name, TOPIC, acks="1", is_idempotent=False) for name, kind in careless
        ]
    load.start(clients)
    try:
        load.go_on(5)
        yield Broken(cluster, Nemesis(cluster, seed), load, directory)
    finally:
        load.over.set()
