"""The timelines of simulated runs."""

import typing

import pytest

from minikafka.lab.matrix import Acks, Cell, Fault, ProducerMode, TopicMode
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.engine import SimulationEngine
from minikafka.lab.timeline import BROKER_STATE, CLIENT_STATE, Event, EventKind, Timeline

LOSING = Cell(ProducerMode(Acks.LEADER), TopicMode(), None, Fault.LEADER_KILLED_AFTER_ACK)
ISOLATED = LOSING._replace(fault=Fault.LEADER_ISOLATED)


def timeline_of(cell: Cell, seed: int = 0) -> Timeline:
    return SimulationEngine().run(Scenario(cell, seed)).timeline()


def state_at_the_end(timeline: Timeline, lane_id: str) -> dict[str, object]:
    state: dict[str, object] = {}
    for event in timeline.events:
        if event.lane == lane_id:
            state |= event.state or {}
    return state


def of_record(timeline: Timeline, value: str, *kinds: str) -> list[Event]:
    return [one for one in timeline.events if one.record == value and one.kind in kinds]


@pytest.mark.parametrize("cell", [LOSING, ISOLATED])
def test_what_a_page_relies_on(cell: Cell) -> None:
    timeline = timeline_of(cell)
    lanes = {lane.id for lane in timeline.lanes}
    times = [event.t for event in timeline.events]
    assert times == sorted(times)
    assert times[0] >= 0
    for event in timeline.events:
        assert event.kind in typing.get_args(EventKind)
        assert event.lane in lanes
        assert event.to is None or event.to in lanes
        assert event.arrives is None or event.arrives >= event.t
        assert (event.state or {}).keys() <= {*BROKER_STATE, *CLIENT_STATE}


def test_a_lost_record_is_appended_acknowledged_and_cut_off() -> None:
    timeline = timeline_of(LOSING)
    lost = next(
        value
        for value, what in timeline.records.items()
        if what["fate"] == "trusted" and not what["copies"]
    )
    assert timeline.counts.lost
    assert of_record(timeline, lost, "append")
    assert of_record(timeline, lost, "acknowledge")
    kinds = [event.kind for event in timeline.events]
    assert kinds.index("kill") < kinds.index("elect") < kinds.index("truncate")


def test_a_record_that_stays_is_in_every_log() -> None:
    timeline = timeline_of(LOSING)
    last = [*timeline.records][-1]
    assert len(of_record(timeline, last, "append", "replicate")) == 3
    offset = timeline.records[last]["offset"]
    for node in ("node-1", "node-2", "node-3"):
        state = state_at_the_end(timeline, node)
        assert state["log_end_offset"] == offset + 1
        assert state["is_up"] is True


def test_one_node_leads_in_the_end_and_is_reached() -> None:
    timeline = timeline_of(ISOLATED)
    states = [state_at_the_end(timeline, f"node-{number}") for number in (1, 2, 3)]
    assert sum(state["is_leader"] is True for state in states) == 1
    assert not any(state["is_cut"] for state in states)
    leader = next(state for state in states if state["is_leader"])
    assert sorted(typing.cast("list[int]", leader["isr"])) == [1, 2, 3]
