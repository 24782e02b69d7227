"""Injects faults into a live cluster."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from minikafka.cli.cluster.report import ClusterReport, fetch_report
from minikafka.testing import Cluster
from minikafka.testing.history.operations import Key
from minikafka_client import KafkaError
from minikafka_client.sync import AdminClient
from tests.kit.waiting import look_until

_PATIENCE_MS = 3000

_T = TypeVar("_T")


class Nemesis:
    """What can happen to a cluster.

    Args:
        cluster: its victim.
        seed: of its choices.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)

    def report(self) -> ClusterReport | None:
        """What the cluster reports about itself; None while no broker answers."""
        return self._ask(lambda admin: admin.run_plan(fetch_report))

    def _ask(self, question: Callable[[AdminClient], _T]) -> _T | None:
        running = [self.cluster.nodes[node].bootstrap for node in self.cluster.running]
        try:
            with AdminClient(
                ",".join(running),
                socket_connection_setup_timeout_ms=_PATIENCE_MS,
                request_timeout_ms=_PATIENCE_MS,
                default_api_timeout_ms=_PATIENCE_MS,
            ) as admin:
                return question(admin)
        except KafkaError:
            return None

    def leader_of(self, key: Key, *, other_than: int | None = None) -> int:
        """The leader of a partition; waits until there is one, other than the one named."""

        def ask(admin: AdminClient) -> int | None:
            leader = _leader(admin, key)
            return None if leader == other_than else leader

        return self._until(ask, f"a leader of {key} other than {other_than}")

    def controller(self) -> int:
        """The leader of the metadata quorum; waits until there is one."""

        def ask(admin: AdminClient) -> int | None:
            quorum = admin.run_plan(fetch_report).quorum
            return quorum.leader_id if quorum is not None and quorum.leader_id >= 0 else None

        return self._until(ask, "a leader of the metadata quorum")

    def _until(self, question: Callable[[AdminClient], int | None], what: str) -> int:
        found: list[int] = []

        def is_known() -> bool:
            answer = self._ask(question)
            if answer is not None:
                found.append(answer)
            return bool(found)

        look_until(is_known, what=what)
        return found[0]

    def crash(self, node_id: int) -> None:
        """SIGKILL, and start it again."""
        self.cluster.kill(node_id)
        self.cluster.start(node_id)

    def wait_until_healthy(self) -> None:
        """Wait until every broker lives and every replica is in sync."""

        def is_healthy() -> bool:
            report = self.report()
            alive = len(report.brokers) if report is not None else 0
            is_complete = alive == len(self.cluster.nodes)
            return report is not None and is_complete and report.is_healthy

        look_until(is_healthy, what="a healthy cluster", show=self.report)


def _leader(admin: AdminClient, key: Key) -> int | None:
    topic, partition = key
    described = admin.describe_topics([topic])[topic]
    leader = described.partitions[partition].leader
    return leader if leader >= 0 else None
