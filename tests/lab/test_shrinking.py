"""From a seed with several strikes to a small one with the fewest."""

import pytest

from minikafka.lab.matrix import Acks, Cell, Fault, ProducerMode, TopicMode
from minikafka.lab.scenario import Scenario
from minikafka.lab.shrinking import shows, shrink
from minikafka.lab.simulation.engine import SimulationEngine
from minikafka.lab.simulation.run import LabRun

ENGINE = SimulationEngine()
LOSING = Cell(ProducerMode(Acks.LEADER), TopicMode(), None, Fault.LEADER_KILLED_AFTER_ACK)


def scenario_with(strikes: int) -> Scenario:
    scenarios = (Scenario(LOSING, seed) for seed in range(100, 200))
    return next(one for one in scenarios if len(LabRun(one).strikes.all) == strikes)


def test_one_strike_and_a_small_seed_are_enough_to_lose() -> None:
    small = shrink(ENGINE, scenario_with(4), shows("lost"))
    assert small.counts.lost
    assert len(small.faults) == 1
    assert small.scenario.seed < 10


def test_strikes_alone_are_shrunk_if_no_other_seed_is_wanted() -> None:
    scenario = scenario_with(3)
    small = shrink(ENGINE, scenario, shows("lost"), seeds=0)
    assert small.scenario.seed == scenario.seed
    assert small.scenario.kept is not None
    assert len(small.scenario.kept) == len(small.faults) == 1


def test_what_is_not_shown_cannot_be_shrunk() -> None:
    with pytest.raises(ValueError, match="does not show it"):
        shrink(ENGINE, Scenario(LOSING._replace(fault=Fault.NONE), 1), shows("lost"))
