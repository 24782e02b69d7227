"""Strikes that somebody has added to a scenario: at a time, to a node, whatever happens there."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.lab.scenario import OwnStrike
from minikafka.lab.simulation.cluster.controller import CONTROLLER
from minikafka.lab.simulation.stage import LabNode, Stage

SLOW_DELAY_S = 0.5
CLOCK_ERROR_MS = 3_600_000


class OwnStrikes:
    """Lets them happen, and mends everything in the end.

    Args:
        stage: the cluster, which runs.
        strikes: times are from now on.

    Attributes:
        ends_at: the time of the last one, by the clock of the simulation.
    """

    def __init__(self, stage: Stage, strikes: Sequence[OwnStrike]) -> None:
        self._stage = stage
        self._cuts: set[tuple[int, int]] = set()
        self._delay_s = stage.world.weather.delay_s
        begin = stage.world.now
        self.ends_at = max((begin + one.at_s for one in strikes), default=begin)
        for one in strikes:
            stage.world.at(begin + one.at_s, self._happen, one)

    def _happen(self, strike: OwnStrike) -> None:
        node = self._target(strike.target)
        self._stage.note_fault(f"{strike.action} {strike.target}: node {node.node_id}")
        match strike.action:
            case "kill":
                self._stage.kill(node)
            case "power":
                self._stage.kill(node, power_loss=True)
            case "start":
                self._stage.start(node)
            case "pause":
                node.pause()
            case "resume":
                node.resume()
            case "cut":
                others = [CONTROLLER, *self._stage.others(node)]
                self._cuts |= self._stage.cut_off(node, others)
            case "heal":
                self._heal()
            case "slow":
                self._stage.world.weather.delay_s = SLOW_DELAY_S
            case _:
                node.clock_error_ms += CLOCK_ERROR_MS

    def _target(self, word: str) -> LabNode:
        nodes = self._stage.nodes
        leader = self._stage.leader or nodes[min(nodes)]
        if word == "leader":
            return leader
        others = [one for one in sorted(nodes) if one != leader.node_id]
        if word == "follower":
            return nodes[others[0]] if others else leader
        return nodes.get(int(word), leader)

    def _heal(self) -> None:
        self._stage.heal(self._cuts)
        self._cuts = set()
        self._stage.world.weather.delay_s = self._delay_s

    def mend(self) -> None:
        """Start, wake and connect everything."""
        self._heal()
        for node in self._stage.nodes.values():
            node.resume()
            self._stage.start(node)
