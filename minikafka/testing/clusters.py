"""A cluster, each node a process of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from .brokers import Broker
from .channel import Channel, CommandError
from .failpoints import Failpoint, FailpointName, arm
from .faults import STEP_SECONDS, Controlled
from .places import Address, Workspace
from .process import START_TIMEOUT_S, wait_until_ready
from .settings import DEFAULTS, Setting

_REPLICAS_MAX: Final = 3
_VOTERS_MAX: Final = 5
_LEADER_TIMEOUT_S: Final = 60.0
_ASK_TIMEOUT_MS: Final = 3_000
_ASK_AGAIN_S: Final = 0.02


From = Literal["all", "clients", "peers"]
"""From whom a node is cut off."""


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


class Cluster(Controlled):
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
        control: bool = True,
    ) -> None:
        super().__init__()
        self._is_controlled = control
        self._ahead_s = 0.0
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
        self._isolated: dict[int, From] = {}

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

        answering = self._answering()
        if not answering:
            return None
        try:
            with AdminClient(
                answering,
                socket_connection_setup_timeout_ms=_ASK_TIMEOUT_MS,
                request_timeout_ms=_ASK_TIMEOUT_MS,
                default_api_timeout_ms=_ASK_TIMEOUT_MS,
            ) as admin:
                partitions = admin.describe_topics([topic])[topic].partitions
        except KafkaError:
            return None
        leaders = [one.leader for one in partitions if one.partition == partition]
        return leaders[0] if leaders and leaders[0] in self.running else None

    def _answering(self) -> list[str]:
        """The addresses of the nodes that answer clients."""
        return [
            broker.bootstrap
            for node, broker in self._nodes.items()
            if broker.is_running and not broker.is_paused and node not in self._isolated
        ]

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
        nodes = list(nodes)
        processes = [self._broker(node).process for node in nodes]
        try:
            wait_until_ready(processes, timeout_s)
            for node in nodes:
                self._broker(node).set_ahead(self._ahead_s)
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
                control=self._is_controlled,
                name=f"node {node}",
                node_id=node,
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
            self._isolated.pop(node, None)
            self._broker(node).kill()

    def lose_power(self, *nodes: int) -> None:
        """Have nodes lose their power together; see `Broker.lose_power`.

        Args:
            *nodes: which; all that run if none is named.

        Raises:
            RuntimeError: the cluster was made with ``control=False``.
        """
        chosen = nodes or tuple(self.running)
        self.kill(*chosen)
        for node in chosen:
            self._broker(node).lose_power()

    def pause(self, *nodes: int) -> None:
        """Suspend nodes (SIGSTOP): their connections stay open and get no answers."""
        for node in nodes or self.running:
            self._broker(node).pause()

    def resume(self, *nodes: int) -> None:
        """Let nodes go on after `pause`."""
        for node in nodes or self.running:
            self._broker(node).resume()

    # --- control ---

    def channels(self) -> dict[int, Channel]:
        """How to reach the nodes that run and are not paused, by node id.

        Raises:
            RuntimeError: the cluster was made with ``control=False``.
        """
        found: dict[int, Channel] = {}
        for node in self._nodes.values():
            if node.is_running and not node.is_paused:
                found |= node.channels()
        return found

    def advance_clocks(self, seconds: float) -> None:
        """See `minikafka.testing.faults.Clock.advance`."""
        left = seconds
        with ThreadPoolExecutor(max(1, len(self._nodes))) as threads:
            while left > 0:
                step = min(left, STEP_SECONDS)
                self._together(threads, self.channels(), "advance", seconds=step)
                hearing = {
                    node: channel
                    for node, channel in self.channels().items()
                    if self._isolated.get(node, "clients") == "clients"
                }
                self._together(threads, hearing, "settle", nodes=list(hearing))
                self._ahead_s += step
                left -= step

    @staticmethod
    def _together(
        threads: ThreadPoolExecutor, channels: Mapping[int, Channel], command: str, **arguments: Any
    ) -> None:
        """Have nodes do something at the same time."""
        done = [threads.submit(one.call, command, **arguments) for one in channels.values()]
        for future in done:
            future.result()

    def reset(self) -> None:
        """See `minikafka.testing.faults.Controlled.reset`."""
        self.clear_faults()
        self.forget_requests()
        self._ask_controller("reset")

    def restore(self) -> None:
        """See `minikafka.testing.faults.Controlled.restore`."""
        for node, broker in self.nodes.items():
            if broker.is_paused:
                self.resume(node)
        if len(self.running) < len(self.nodes):
            self.start()
        self.heal()
        self.clear_faults()
        self.disk_has_room()
        self.forget_requests()

    def _ask_controller(self, command: str) -> None:
        """Have the active controller do something; wait for an election if there is none.

        Raises:
            TimeoutError: no node is the active controller for a minute.
        """
        deadline = time.monotonic() + _LEADER_TIMEOUT_S
        while True:
            for channel in self.channels().values():
                try:
                    channel.call(command)
                except CommandError as error:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{command}: {error}") from None
                else:
                    return
            time.sleep(_ASK_AGAIN_S)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make a replica the leader now, as an administrator or the balancer does.

        It becomes the preferred leader, too, so that nothing moves it back. If the replica is not
        in sync yet, this waits until it is.

        Raises:
            ValueError: there is no such node or partition, or the node has no replica of it.
            RuntimeError: the replica cannot lead, for instance because its node does not run.
        """
        from .topics import elect_preferred, reorder, replicas_of
        from .wire import Wire

        broker = self._broker(node)
        deadline = time.monotonic() + _LEADER_TIMEOUT_S
        with Wire(self._answering()[0]) as wire:
            places = replicas_of(wire, topic, partition)
            if node not in places:
                raise ValueError(
                    f"node {node} has no replica of {topic}-{partition}: {places or 'none'}"
                )
            reorder(wire, topic, partition, [node, *(one for one in places if one != node)])
            while True:
                code = elect_preferred(wire, topic, partition)
                # Before the cluster notices that a node is dead, it may even make it the leader.
                if broker.is_running and not code and self.leader(topic, partition) == node:
                    return
                if (code and not broker.is_running) or time.monotonic() > deadline:
                    reason = code or "it has been elected and does not lead"
                    raise RuntimeError(f"node {node} cannot lead {topic}-{partition}: {reason}")
                time.sleep(_ASK_AGAIN_S)

    def elect(self, topic: str, partition: int = 0) -> int:
        """Hold an election for a partition now: another in-sync replica becomes its leader.

        Stands for what happens when the leader's node stops in good order, or is relieved by an
        administrator: its clients get NOT_LEADER_OR_FOLLOWER and look for the new leader, and the
        leader epoch goes up. Nothing is lost. For a leader that dies, use `kill`.

        Returns:
            The new leader.

        Raises:
            RuntimeError: no other replica is in sync.
        """
        from .topics import in_sync_of
        from .wire import Wire

        leader = self.leader(topic, partition)
        with Wire(self._answering()[0]) as wire:
            others = [
                one
                for one in in_sync_of(wire, topic, partition)
                if one != leader and one in self.running
            ]
        if not others:
            raise RuntimeError(f"no other replica of {topic}-{partition} is in sync with {leader}")
        self.move_leader(topic, partition, others[0])
        return others[0]

    def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """The node that coordinates a group or a transactional id; waits until there is one.

        Raises:
            TimeoutError: there is none for a minute.
            ValueError: not exactly one of both is given.
        """
        return self.leader(*self._coordinator_partition(group, transactional_id))

    def move_coordinator(
        self, *, node: int, group: str | None = None, transactional_id: str | None = None
    ) -> None:
        """Make a node the coordinator of a group or of a transactional id now.

        Stands for what happens when the coordinator's node stops: members and producers get
        NOT_COORDINATOR and look for the new one, which has read the state from the log. All groups,
        or ids, of the same partition of the internal topic move.

        Raises:
            ValueError: there is no such node, or not exactly one of both is given.
            RuntimeError: the node does not run.
        """
        self.move_leader(*self._coordinator_partition(group, transactional_id), node)

    def _coordinator_partition(
        self, group: str | None, transactional_id: str | None
    ) -> tuple[str, int]:
        from .topics import find_coordinator
        from .wire import Wire

        if (group is None) == (transactional_id is None):
            raise ValueError("name a group or a transactional_id, and not both")
        is_group, key = group is not None, group or transactional_id or ""
        with Wire(self._answering()[0]) as wire:
            find_coordinator(wire, key, is_group=is_group)  # makes the internal topic
        channel = next(iter(self.channels().values()))
        topic, partition = channel.call("coordinator_partition", is_group=is_group, key=key)
        return str(topic), int(partition)

    def controller(self, *, timeout_s: float = _LEADER_TIMEOUT_S) -> int:
        """The active controller's node; waits until there is one.

        Raises:
            TimeoutError: there is none within ``timeout_s``.
        """
        deadline = time.monotonic() + timeout_s
        while not (active := self._active_controllers()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"there has been no active controller for {timeout_s:.0f} s")
            time.sleep(_ASK_AGAIN_S)
        return active[0]

    def _active_controllers(self) -> list[int]:
        return [
            node
            for node, channel in self.channels().items()
            if node not in self._isolated and channel.call("is_controller")
        ]

    def move_controller(self, node: int | None = None) -> int:
        """Hold an election of the active controller now.

        Stands for what happens when the controller's node stops in good order: for a moment no
        topics are made and no leaders elected; clients notice only delays.

        Args:
            node: who is to win, one of the first five nodes; any other than the present one if
                None.

        Returns:
            The new active controller.

        Raises:
            RuntimeError: the present one stays, for instance because the other does not run.
        """
        if node is not None:
            self._broker(node)
        deadline = time.monotonic() + _LEADER_TIMEOUT_S
        before = self.controller()
        if node == before:
            return before
        while (active := self.controller()) == before or node not in {None, active}:
            if time.monotonic() > deadline:
                raise RuntimeError(f"node {active} stays the active controller")
            self.channels()[active].call("move_controller", node=node)
        return active

    def failpoint(
        self,
        name: FailpointName,
        *,
        kill: bool = False,
        pause: bool = False,
        error: bool = False,
        times: int | None = 1,
        skip: int = 0,
    ) -> Failpoint:
        """Have a broker die, stand still or fail at a point of its work; see `FAILPOINTS`.

        Nothing is a matter of timing: at the point nothing else happens before. The points are in
        ``docs/testing.md``. A restarted broker has none. Each running node counts
        for itself: take ``kafka.nodes[1].failpoint`` for one of them.

        Args:
            name: of the point.
            kill: end the process, as a crash or ``kill -9`` does.
            pause: stop the process, as `pause` does; `resume` lets it go on.
            error: raise an error that nobody has foreseen, as a bug in the broker would.
            times: how often; None for always.
            skip: how often the point is passed before that.

        Raises:
            ValueError: there is no such point, or not exactly one of the three is to happen.
        """
        brokers = [broker for broker in self.nodes.values() if broker.is_running]
        return arm(brokers, name, kill=kill, pause=pause, error=error, times=times, skip=skip)

    def reached_failpoints(self) -> Counter[str]:
        """How often each point was passed, since this was first asked or a failpoint was set."""
        return sum(
            (self.nodes[node].reached_failpoints() for node in self.channels()), Counter[str]()
        )

    def isolate(self, node: int, from_: From = "all") -> None:
        """Cut a node off from clients, from the other nodes, or from both.

        Stands for a broken network: the node's process goes on, hears nothing and is not heard;
        nothing is refused. Connections resume with `heal`, unless one side has given them up by
        then. Linux only.

        Args:
            node: which.
            from_: ``"clients"``: it replicates, leads and gets no requests. ``"peers"``: it gets
                requests, and is no longer told who leads; after its session others take over.

        Raises:
            CommandError: the node does not run, or the system cannot do that.
            ValueError: ``from_`` is another word.
        """
        if from_ not in {"all", "clients", "peers"}:
            raise ValueError(f"from_={from_!r}: it is 'all', 'clients' or 'peers'")
        is_peers = from_ != "clients"
        ports = (
            self._broker(node)
            .channels()[node]
            .call("cut_off", clients=from_ != "peers", peers=is_peers)
        )
        self._isolated[node] = from_ if self._isolated.get(node, from_) == from_ else "all"
        for other, channel in self.channels().items():
            if other != node and is_peers:
                channel.call("ignore", ports=ports)

    def heal(self) -> None:
        """Connect all nodes again."""
        self._isolated.clear()
        self._tell_all("heal")

    # --- the end ---

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
