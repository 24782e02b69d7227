"""Our own brokers under attack: three nodes in processes of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from minikafka import testing
from minikafka.testing.settings import Setting

from .target import Action, CannotError

SETTINGS: Final[Mapping[str, Setting]] = {
    "auto.create.topics.enable": False,
    "broker.heartbeat.interval.ms": 200,
    "broker.session.timeout.ms": 1_000,
    "group.min.session.timeout.ms": 500,
    "replica.lag.time.max.ms": 1_000,
    "transaction.state.log.num.partitions": 3,
    "transaction.two.phase.commit.enable": True,
}
"""Short sessions, so that a run takes seconds."""

_CLOCK_JUMP_S: Final = 120.0
_REFUSED_AFTER_S: Final = 0.1
"""Until then, the next requests have come, too."""
_KILLS: Final[Mapping[Action, testing.FailpointName]] = {
    Action.KILL_BEFORE_APPEND: "produce.received",
    Action.KILL_AFTER_APPEND: "produce.appended",
    Action.KILL_AFTER_ACK: "replication.sending",
}


class MinikafkaTarget:
    """Three of our brokers; see `minikafka.lab.processes.target.Target`.

    Args:
        directory: for their data; a temporary one if None.
        prefix: words before each node's command; see `minikafka.testing.NodeOptions`.
        nodes: how many.

    Raises:
        BrokerStartError: a node did not start.
    """

    name = "minikafka"
    session_ms = 1_000
    is_direct = True
    patience_s = 30.0
    can = frozenset(Action)

    def __init__(
        self, *, directory: Path | None = None, prefix: Sequence[str] = (), nodes: int = 3
    ) -> None:
        options = [testing.NodeOptions(prefix=prefix)] * nodes
        self._cluster = testing.cluster(options, SETTINGS, directory=directory)
        self._cluster.__enter__()
        self.version = _version()
        self.bootstrap = self._cluster.bootstrap
        self.properties: Mapping[str, str] = {}
        self.nodes: Collection[int] = tuple(self._cluster.nodes)

    def address(self, node: int) -> str:
        """``HOST:PORT`` of a node, for clients."""
        return self._cluster.nodes[node].bootstrap

    def is_answering(self, node: int) -> bool:
        """Whether it runs, and is not paused."""
        broker = self._cluster.nodes[node]
        return broker.is_running and not broker.is_paused

    def do(self, action: Action, node: int) -> None:
        """See `minikafka.lab.processes.target.Target.do`.

        Raises:
            CannotError: it failed.
        """
        cluster, broker = self._cluster, self._cluster.nodes[node]
        actions: Mapping[Action, Callable[[], object]] = {
            Action.KILL: lambda: cluster.kill(node),
            Action.STOP: lambda: cluster.stop(node),
            Action.START: lambda: self._start(node),
            Action.PAUSE: lambda: cluster.pause(node),
            Action.RESUME: lambda: cluster.resume(node),
            Action.ISOLATE: lambda: cluster.isolate(node, "peers"),
            Action.HEAL: self._heal,
            Action.LOSE_REQUEST: lambda: broker.inject("Produce", disconnect="before"),
            Action.REFUSE: lambda: broker.inject(
                "Produce", "NOT_LEADER_OR_FOLLOWER", delay_s=_REFUSED_AFTER_S
            ),
            Action.LOSE_ACK: lambda: broker.inject("Produce", disconnect="after"),
            Action.FALL_BEHIND: broker.disk_full,
            Action.WIPE: lambda: self._wipe(node),
            Action.LOSE_POWER: lambda: cluster.lose_power(node),
            Action.JUMP_CLOCK: lambda: cluster.clock.advance(_CLOCK_JUMP_S),
        }
        try:
            if action in _KILLS:
                broker.failpoint(_KILLS[action], kill=True)
            else:
                actions[action]()
        except (testing.CommandError, testing.BrokerStartError, OSError) as error:
            raise CannotError(f"{action.value} {node}: {error}") from error

    def _start(self, node: int) -> None:
        if not self._cluster.nodes[node].is_running:
            self._cluster.start(node)

    def _heal(self) -> None:
        self._cluster.heal()
        self._cluster.disk_has_room()

    def _wipe(self, node: int) -> None:
        for log in (self._cluster.directory / f"node-{node}").rglob("*-[0-9]*"):
            if log.is_dir() and not log.name.startswith("__"):
                shutil.rmtree(log)

    def restore(self) -> None:
        """Have all nodes run, reach each other and serve clients again."""
        self._cluster.restore()

    def close(self) -> None:
        """End the nodes."""
        self._cluster.__exit__(None, None, None)


def _version() -> str:
    from importlib.metadata import version

    return version("minikafka")
