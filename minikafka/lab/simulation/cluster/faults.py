"""What goes wrong in a simulated cluster, drawn from its seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from minikafka.lab.simulation.cluster.controller import CONTROLLER, Controller
from minikafka.lab.simulation.cluster.node import SimulatedNode
from minikafka.lab.simulation.cluster.quorum import VOTERS, QuorumNode
from minikafka.lab.simulation.kit.world import Weather, World

DURATIONS_S = (0.3, 3.0, 12.0)


class Target(Protocol):
    """What may go wrong; `Cluster` is one."""

    world: World
    nodes: Mapping[int, SimulatedNode]
    faults: Counter[str]
    partition_count: int
    replica_count: int

    def kill(
        self, node: SimulatedNode, *, power_loss: bool = False, is_noticed: bool = False
    ) -> None: ...

    def active_controller(self) -> Controller | None: ...


class Faults:
    """Lets something go wrong every now and then, until it is stopped.

    Args:
        cluster: where.
        has_quorum: the brokers are the nodes of the metadata quorum.
        is_power_safe: there are no power failures.
    """

    def __init__(self, cluster: Target, *, has_quorum: bool, is_power_safe: bool) -> None:
        self._cluster = cluster
        self._has_quorum = has_quorum
        self._is_power_safe = is_power_safe
        self._world = cluster.world
        dice = self._world.dice
        self._pause_s = dice.choice((1.0, 2.5, 6.0))
        self._is_over = False
        self._world.weather = Weather(
            loss=dice.choice((0.0, 0.02, 0.1)),
            repetition=dice.choice((0.0, 0.05)),
            delay_s=dice.choice((0.002, 0.02, 0.2)),
            detour=dice.choice((0.0, 0.05)),
            detour_s=dice.choice((0.3, 4.0)),
        )
        self._next_fault()

    def stop(self) -> None:
        self._is_over = True

    def _next_fault(self) -> None:
        if self._is_over:
            return
        dice = self._world.dice
        self._world.after(dice.expovariate(1 / self._pause_s), self._next_fault)
        faults: list[Callable[[SimulatedNode, float], None]] = [
            self._kill,
            self._kill,
            self._lose_power,
            self._cycle_power,
            self._pause,
            self._pause,
            self._stop,
            self._cut_one_way,
            self._cut_off_controller,
            self._isolate,
            self._split,
            self._heal,
            self._elect_preferred,
            self._reassign,
            self._lose_all_power,
        ]
        if self._has_quorum:
            faults.append(self._lose_quorum_directory)
        fault = dice.choice(faults)
        leaders = [node for node in self._cluster.nodes.values() if self._leads(node)]
        victims = leaders if leaders and dice.random() < 0.5 else list(self._cluster.nodes.values())
        duration_s = dice.choice((0.3, 3.0, 12.0)) * dice.random()
        name = fault.__name__.strip("_").replace("_", " ")
        self._cluster.faults[name] += 1
        fault(dice.choice(victims), duration_s)

    def _leads(self, node: SimulatedNode) -> bool:
        return node.is_up and any(one.leader is not None for one in node.replicas.values())

    def _kill(self, node: SimulatedNode, duration_s: float, *, power_loss: bool = False) -> None:
        self._cluster.kill(node, power_loss=power_loss)
        self._world.after(duration_s, node.start)

    def _lose_power(self, node: SimulatedNode, duration_s: float) -> None:
        self._kill(node, duration_s, power_loss=not self._is_power_safe)

    def _cycle_power(self, node: SimulatedNode, _: float) -> None:
        """It is back at once, before everything that it had sent has arrived."""
        self._cluster.kill(node, power_loss=not self._is_power_safe, is_noticed=True)
        self._world.after(0.2, node.start)

    def _lose_all_power(self, _: SimulatedNode, duration_s: float) -> None:
        if self._world.dice.random() < 0.2:
            for one in self._cluster.nodes.values():
                self._lose_power(one, duration_s * self._world.dice.random())

    def _lose_quorum_directory(self, node: SimulatedNode, duration_s: float) -> None:
        """Any minority of the voters' may be lost at once."""
        lost = {
            one.node_id
            for one in self._cluster.nodes.values()
            if isinstance(one, QuorumNode) and one.has_lost_directory
        }
        if isinstance(node, QuorumNode) and len(VOTERS - lost - {node.node_id}) > len(VOTERS) // 2:
            self._kill(node, duration_s)
            node.lose_quorum_directory()

    def _pause(self, node: SimulatedNode, duration_s: float) -> None:
        node.pause()
        self._world.after(duration_s, node.resume)

    def _stop(self, node: SimulatedNode, duration_s: float) -> None:
        node.begin_stop()
        self._world.after(8.0 + duration_s, node.start)

    def _cut_one_way(self, node: SimulatedNode, duration_s: float) -> None:
        self._world.cut_one_way(node.node_id, self._others(node), duration_s)

    def _others(self, node: SimulatedNode) -> list[int]:
        return [one for one in self._cluster.nodes if one != node.node_id]

    def _cut_off_controller(self, node: SimulatedNode, duration_s: float) -> None:
        self._world.isolate(node.node_id, [CONTROLLER], duration_s)

    def _isolate(self, node: SimulatedNode, duration_s: float) -> None:
        """From the other brokers; often from the controller, too."""
        others = self._others(node)
        if self._world.dice.random() < 0.5:
            others.append(CONTROLLER)
        self._world.isolate(node.node_id, others, duration_s)

    def _split(self, _: SimulatedNode, duration_s: float) -> None:
        self._world.split((CONTROLLER, *self._cluster.nodes), duration_s)

    def _heal(self, _: SimulatedNode, __: float) -> None:
        self._world.heal()

    def _elect_preferred(self, _: SimulatedNode, __: float) -> None:
        controller = self._cluster.active_controller()
        if controller is not None:
            controller.elect_preferred()

    def _reassign(self, _: SimulatedNode, __: float) -> None:
        dice, cluster = self._world.dice, self._cluster
        number = dice.randrange(cluster.partition_count)
        replicas = dice.sample(sorted(cluster.nodes), cluster.replica_count)
        controller = cluster.active_controller()
        if controller is not None:
            controller.reassign(number, None if dice.random() < 0.2 else replicas)
