"""A cluster, a load on it, somebody who breaks it, and a verdict at the end."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from minikafka_client import NewTopic
from minikafka_client.sync import AdminClient
from tests.faults.cluster_clients import (
    Committer,
    ConfluentReader,
    ConfluentWriter,
    OurReader,
    OurWriter,
)
from tests.faults.cluster_load import ClusterLoad
from tests.faults.cluster_nemesis import Nemesis, Victim
from tests.history.anomalies import Anomaly
from tests.live_cluster import LiveCluster

TOPIC = "kept"
PARTITIONS = 3
FIRST = (TOPIC, 0)

RETRIES_SHOW = (Anomaly.DUPLICATE, Anomaly.NONMONOTONIC_SEND, Anomaly.INCONSISTENT_OFFSETS)
"""What a producer without idempotence may show: a batch twice, or behind the one after it. The
acknowledgement is then one of the second copy."""


class Judged(Victim, Protocol):
    """A cluster whose logs are looked at in the end, and where it is."""

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT,...`."""
        ...

    def check_logs(self) -> None:
        """Fail if a node's log shows a bug."""
        ...


_Cluster = TypeVar("_Cluster", bound=Judged)


@dataclass(frozen=True)
class Broken(Generic[_Cluster]):
    """What a campaign works with.

    Attributes:
        cluster: three brokers.
        nemesis: breaks them.
        load: clients at work on `TOPIC`.
        directory: for what has to be kept.
    """

    cluster: _Cluster
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
        assert not errors, f"producers were told of failures: {errors}"
        self.cluster.check_logs()


@contextmanager
def broken_cluster(
    directory: Path,
    seed: int,
    *,
    settings: Mapping[str, str] | None = None,
    is_idempotent: bool = True,
) -> Generator[Broken[LiveCluster]]:
    """A cluster under load, for a block; three replicas, two of which acks=all needs."""
    with (
        LiveCluster(directory / "cluster", settings=dict(settings or {})) as cluster,
        under_load(cluster, directory, seed, is_idempotent=is_idempotent) as broken,
    ):
        yield broken


@contextmanager
def under_load(
    cluster: _Cluster, directory: Path, seed: int, *, is_idempotent: bool = True
) -> Generator[Broken[_Cluster]]:
    """Put a load on a running cluster; without idempotence also one with acks=1."""
    with AdminClient(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    load = ClusterLoad(cluster.bootstrap, {TOPIC: PARTITIONS})
    clients = [
        OurWriter(load, "our writer", TOPIC, is_idempotent=is_idempotent),
        ConfluentWriter(load, "confluent writer", TOPIC, is_idempotent=is_idempotent),
        OurReader(load, "our reader"),
        ConfluentReader(load, "confluent reader"),
        Committer(load, "committer", FIRST),
    ]
    if not is_idempotent:
        careless = (
            ("our careless writer", OurWriter),
            ("confluent careless writer", ConfluentWriter),
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
