"""A cluster, each node a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .blocks import Block
from .brokers import Broker
from .places import Address, Workspace
from .process import START_TIMEOUT_S, wait_until_ready
from .settings import DEFAULTS, Setting

_REPLICAS_MAX: Final = 3
_VOTERS_MAX: Final = 5
_LEADER_TIMEOUT_S: Final = 60.0
_ASK_TIMEOUT_MS: Final = 3_000
_ASK_AGAIN_S: Final = 0.02


@dataclass(frozen=True)
class NodeOptions:
    """What is particular to one node of a cluster.

    Attributes:
        settings: in addition to the cluster's, e.g. ``{"broker.rack": "a"}``.
        listen: ``HOST:PORT`` for clients; port 0 is a free one.
        internal_listen: the same for the other nodes.
        prefix: words before the command; see `minikafka.testing.broker`.
        arguments: further arguments of ``minikafka serve``.
    """

    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    listen: str = "127.0.0.1:0"
    internal_listen: str = "127.0.0.1:0"
    prefix: Sequence[str] = ()
    arguments: Sequence[str] = ()


class Cluster(Block):
    """Nodes 1 to N (or from another first id on), which can be killed, paused and started again.

    `minikafka.testing.cluster` makes one and describes the arguments. Methods that take nodes mean
    all of them when none is named. Addresses and data stay the same over restarts.
    """

    def __init__(
        self,
        nodes: int | Sequence[NodeOptions] = 3,
        settings: Mapping[str, Setting] | None = None,
        *,
        first_id: int = 1,
        directory: Path | str | None = None,
        keep: bool = False,
        environment: Mapping[str, str] | None = None,
        defaults: Mapping[str, Setting] = DEFAULTS,
    ) -> None:
        self._first_id = first_id
        self._options = [NodeOptions()] * nodes if isinstance(nodes, int) else list(nodes)
        if not self._options:
            raise ValueError("a cluster needs at least one node")
        replicas = min(_REPLICAS_MAX, len(self._options))
        self._defaults: dict[str, Setting] = {
            **defaults,
            "default.replication.factor": replicas,
            "min.insync.replicas": max(1, replicas - 1),
            "offsets.topic.replication.factor": replicas,
        }
        self._settings = settings or {}
        self._environment = environment
        self._workspace = Workspace(directory, keep)
        self._internal: list[Address] = []
        self._nodes: dict[int, Broker] = {}

    # --- what it is ---

    @property
    def nodes(self) -> Mapping[int, Broker]:
        """The brokers by node id, running or not.

        Raises:
            RuntimeError: the cluster was not started.
        """
        if not self._nodes:
            raise RuntimeError("the cluster was not started")
        return self._nodes

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT,HOST:PORT,...`` of all nodes, running or not."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def running(self) -> list[int]:
        """The node ids of the processes that run, paused ones included."""
        return [node_id for node_id, node in self._nodes.items() if node.is_running]

    @property
    def directory(self) -> Path:
        """What has the nodes' data and logs."""
        return self._workspace.path

    def log(self, node: int) -> str:
        """What a node has written to its log so far, over all restarts."""
        return self._broker(node).log()

    def leader(
        self, topic: str, partition: int = 0, *, timeout_s: float = _LEADER_TIMEOUT_S
    ) -> int:
        """The node that leads a partition; waits until there is one.

        A dead node is not returned, although the others take a moment to notice its death.

        Raises:
            TimeoutError: there is no leader, or no such partition, within ``timeout_s``.
        """
        deadline = time.monotonic() + timeout_s
        while (leader := self._ask_leader(topic, partition)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}-{partition} has had no leader for {timeout_s:.0f} s")
            time.sleep(_ASK_AGAIN_S)
        return leader

    def _ask_leader(self, topic: str, partition: int) -> int | None:
        from minikafka_client import KafkaError
        from minikafka_client.sync import AdminClient

        answering = [
            node.bootstrap
            for node in self._nodes.values()
            if node.is_running and not node.is_paused
        ]
        if not answering:
            return None
        try:
            with AdminClient(
                ",".join(answering),
                socket_connection_setup_timeout_ms=_ASK_TIMEOUT_MS,
                request_timeout_ms=_ASK_TIMEOUT_MS,
                default_api_timeout_ms=_ASK_TIMEOUT_MS,
            ) as admin:
                partitions = admin.describe_topics([topic])[topic].partitions
        except KafkaError:
            return None
        leaders = [one.leader for one in partitions if one.partition == partition]
        return leaders[0] if leaders and leaders[0] in self.running else None

    # --- what happens to it ---

    def start(self, *nodes: int) -> None:
        """Start nodes that do not run, together, and wait until they serve.

        A node serves when a majority of the first five nodes runs: after the loss of two of three,
        start both in one call. The first start needs all of these.

        Args:
            *nodes: which; all that do not run if none is named.

        Raises:
            BrokerStartError: one of them did not start; the others of this call are killed.
            RuntimeError: one of them is running.
        """
        self.wait_until_serving(self.launch(*nodes))

    def launch(self, *nodes: int) -> list[int]:
        """Start nodes without waiting for them; see `start`.

        Returns:
            The node ids, for `wait_until_serving`.
        """
        if not self._nodes:
            self._lay_out()
        chosen = list(nodes) or [node for node in self._nodes if node not in self.running]
        brokers = [self._broker(node) for node in chosen]
        for broker in brokers:
            if broker.is_running:
                raise RuntimeError(f"{broker.name} is already running, as process {broker.pid}")
        for broker in brokers:
            broker.launch()
        return chosen

    def wait_until_serving(
        self, nodes: Iterable[int], *, timeout_s: float = START_TIMEOUT_S
    ) -> None:
        """Wait for nodes that were launched.

        Raises:
            BrokerStartError: one of them did not start; all of them are killed.
        """
        processes = [self._broker(node).process for node in nodes]
        try:
            wait_until_ready(processes, timeout_s)
        except BaseException:
            for process in processes:
                process.kill()
            raise

    def _lay_out(self) -> None:
        count = len(self._options)
        voters = min(count - (count + 1) % 2, _VOTERS_MAX)  # a majority needs an odd number
        self._internal = [Address(options.internal_listen) for options in self._options]
        places = enumerate(self._internal[:voters], self._first_id)
        quorum = ",".join(f"{node}@{place}" for node, place in places)
        for node, options in enumerate(self._options, self._first_id):
            settings = {**self._settings, **options.settings}
            words = ["--node-id", str(node)]
            if count > 1:
                words += ["--quorum", quorum]
                settings["minikafka.internal.listener"] = str(self._internal[node - self._first_id])
            self._nodes[node] = Broker(
                settings,
                directory=self.directory / f"node-{node}",
                listen=options.listen,
                prefix=options.prefix,
                arguments=[*words, *options.arguments],
                environment=self._environment,
                defaults=self._defaults,
                name=f"node {node}",
            )

    def stop(self, *nodes: int) -> dict[int, int]:
        """Ask nodes to stop (SIGTERM), and wait for them.

        Args:
            *nodes: which; all that run if none is named.

        Returns:
            Their exit codes: 0 after a clean stop, negative for the signal that ended them.
        """
        chosen = {node: self._broker(node) for node in nodes or self.running}
        for broker in chosen.values():
            broker.ask_to_stop()
        return {node: broker.process.wait() for node, broker in chosen.items()}

    def kill(self, *nodes: int) -> None:
        """End nodes without a warning (SIGKILL), as crashes would."""
        for node in nodes or self.running:
            self._broker(node).kill()

    def pause(self, *nodes: int) -> None:
        """Suspend nodes (SIGSTOP): their connections stay open and get no answers."""
        for node in nodes or self.running:
            self._broker(node).pause()

    def resume(self, *nodes: int) -> None:
        """Let nodes go on after `pause`."""
        for node in nodes or self.running:
            self._broker(node).resume()

    def close(self) -> None:
        """Stop what runs, and remove what is temporary."""
        try:
            self.stop()
        finally:
            for node in self._nodes.values():
                node.release()
            for address in self._internal:
                address.release()
            self._workspace.remove()

    def judge(self) -> None:
        """Fail if a node kept its clients waiting; see `Broker.judge`."""
        for node in self._nodes.values():
            node.judge()

    def explain(self, error: BaseException) -> None:
        """Add the ends of all logs to an error."""
        for node in self._nodes.values():
            node.explain(error)

    def _broker(self, node: int) -> Broker:
        try:
            return self.nodes[node]
        except KeyError:
            known = ", ".join(map(str, self.nodes))
            raise ValueError(f"there is no node {node}; the cluster has {known}") from None
