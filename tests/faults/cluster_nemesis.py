"""Breaks a live cluster on purpose, and knows whom it hits."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Protocol

from minikafka.cli.cluster_files import Cluster
from minikafka.cli.cluster_picture import Picture, take_picture
from minikafka_client import KafkaError
from minikafka_client.sync import AdminClient
from tests.history.operations import Key
from tests.interop.waiting import work_until

_PATIENCE_MS = 3000
_MOMENT_S = 0.05


class Victim(Protocol):
    """A cluster that can be broken."""

    def cluster(self) -> Cluster:
        """Its nodes."""
        ...

    def kill(self, node_id: int) -> None:
        """End a node without a warning, and wait until it is gone."""
        ...

    def start_node(self, node_id: int) -> None:
        """Start a dead node and wait until it serves."""
        ...


class Nemesis:
    """What can happen to a cluster.

    Args:
        cluster: its victim.
        seed: of its choices.
    """

    def __init__(self, cluster: Victim, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)
        self._never = threading.Event()

    def picture(self) -> Picture | None:
        """What the cluster says of itself; None while nobody answers."""
        nodes = [node for node in self.cluster.cluster().nodes if node.pid is not None]
        try:
            with AdminClient(
                ",".join(node.listener for node in nodes),
                connect_timeout_ms=_PATIENCE_MS,
                request_timeout_ms=_PATIENCE_MS,
                api_timeout_ms=_PATIENCE_MS,
            ) as admin:
                return admin.run_plan(take_picture)
        except KafkaError:
            return None

    def leader_of(self, key: Key, *, other_than: int | None = None) -> int:
        """Who leads a partition; waits until somebody does, and somebody else than named."""

        def ask(admin: AdminClient) -> int | None:
            leader = _leader(admin, key)
            return None if leader == other_than else leader

        return self._until(ask, f"a leader of {key} other than {other_than}")

    def controller(self) -> int:
        """Who leads the metadata quorum; waits until somebody does."""

        def ask(admin: AdminClient) -> int | None:
            quorum = admin.run_plan(take_picture).quorum
            return quorum.leader_id if quorum is not None and quorum.leader_id >= 0 else None

        return self._until(ask, "a leader of the metadata quorum")

    def _until(self, ask: Callable[[AdminClient], int | None], what: str) -> int:
        found: list[int] = []

        def attempt() -> None:
            nodes = [node for node in self.cluster.cluster().nodes if node.pid is not None]
            try:
                with AdminClient(
                    ",".join(node.listener for node in nodes),
                    connect_timeout_ms=_PATIENCE_MS,
                    request_timeout_ms=_PATIENCE_MS,
                    api_timeout_ms=_PATIENCE_MS,
                ) as admin:
                    answer = ask(admin)
            except KafkaError:
                answer = None
            if answer is None:
                self._never.wait(_MOMENT_S)
            else:
                found.append(answer)

        work_until(lambda: bool(found), attempt, what=what)
        return found[0]

    def crash(self, node_id: int) -> None:
        """SIGKILL, and start it again."""
        self.cluster.kill(node_id)
        self.cluster.start_node(node_id)

    def wait_until_healthy(self) -> None:
        """Wait until every broker lives and every replica is in sync."""

        def is_healthy() -> bool:
            picture = self.picture()
            alive = len(picture.brokers) if picture is not None else 0
            everybody = alive == len(self.cluster.cluster().nodes)
            return picture is not None and everybody and picture.is_healthy

        work_until(
            is_healthy,
            lambda: self._never.wait(_MOMENT_S),
            what="a healthy cluster",
            show=self.picture,
        )


def _leader(admin: AdminClient, key: Key) -> int | None:
    topic, partition = key
    described = admin.describe_topics([topic])[topic]
    leader = described.partitions[partition].leader
    return leader if leader >= 0 else None
