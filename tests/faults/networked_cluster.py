"""A cluster whose brokers live in network namespaces."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from minikafka import testing
from tests.faults.network import Network

_PORT = 9092
_INTERNAL_PORT = 19092


@contextmanager
def networked_cluster(
    directory: Path, network: Network, settings: Mapping[str, str]
) -> Generator[testing.Cluster]:
    """Three brokers for a block, each behind a link of `network`, which need a secret for that."""
    nodes = [
        testing.NodeOptions(
            listen=f"{network.address(node_id)}:{_PORT}",
            internal_listen=f"{network.address(node_id)}:{_INTERNAL_PORT}",
            prefix=network.prefix(node_id),
        )
        for node_id in (1, 2, 3)
    ]
    secret = directory / "secret"
    secret.touch(mode=0o600)
    secret.write_text("known to the nodes of this cluster")
    settings = {**settings, "minikafka.internal.secret.file": str(secret)}
    with testing.cluster(nodes, settings, directory=directory) as cluster:
        try:
            yield cluster
        finally:
            network.heal()
