"""Documents of the report as a lab would write them.

The two timelines side by side are of the simulation; the counts are made up from a seed. `timeline`
is made up, too: a small play with a producer, three brokers and a consumer, as long as one likes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from minikafka.lab.claims import CLAIMS
from minikafka.lab.ledger import Counts, Fate, Ledger
from minikafka.lab.matrix import Acks, Cell, Commit, Fault, ProducerMode, TopicMode, cells
from minikafka.lab.results import SHOWN, CellResult, Judgement, judge, overall
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.engine import SimulationEngine
from minikafka.lab.timeline import Event, EventKind, Lane, Timeline

Document = dict[str, Any]
KILLED_AT = 0.4
BROKERS = ("node-1", "node-2", "node-3")


def scenario(acks: Acks, seed: int) -> Scenario:
    cell = Cell(ProducerMode(acks), TopicMode(), None, Fault.LEADER_KILLED_AFTER_ACK)
    return Scenario(cell, seed)


def side_by_side() -> tuple[Document, Document]:
    """The first seed that loses with acks=1 and not with acks=all, simulated."""
    engine = SimulationEngine()
    for seed in range(100):
        weak, strong = (engine.run(scenario(acks, seed)) for acks in (Acks.LEADER, Acks.ALL))
        if weak.counts.lost and not strong.counts.lost:
            return weak.timeline().to_json(), strong.timeline().to_json()
    raise AssertionError("acks=1 loses with no seed below 100")


class Play:
    """A run that is made up: the same seed and the same `acks` give the same one."""

    def __init__(self, acks: Acks, seed: int, records: int) -> None:
        self.acks = acks
        self.dice = Random(seed)
        self.records = [f"r{number}" for number in range(records)]
        self.queue: list[tuple[float, int, Callable[[float], None]]] = []
        self.events: list[Event] = []
        self.logs: dict[str, list[str]] = {name: [] for name in BROKERS}
        self.leader: str | None = "node-1"
        self.high_watermark = 0
        self.acknowledged: list[str] = []
        self.read: list[str] = []
        self.later(0.0, self.begin)

    def later(self, t: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self.queue, (t, self.dice.getrandbits(30), act))

    def event(self, t: float, lane: str, kind: EventKind, text: str, **rest: Any) -> None:
        self.events.append(Event(t, lane, kind, text, **rest))

    def timeline(self) -> Timeline:
        while self.queue:
            t, _, act = heapq.heappop(self.queue)
            act(t)
        ledger = Ledger(sent=[("producer", one) for one in self.records], read=self.read)
        ledger.fates = dict.fromkeys(self.acknowledged, Fate.TRUSTED)
        ledger.log = self.logs[self.leader or "node-1"]
        records = {
            one: {
                "fate": ledger.fates.get(one, Fate.UNKNOWN).value,
                "copies": ledger.log.count(one),
                "results": 0,
            }
            for one in self.records
        }
        word = self.acks.word.replace("acks", "acks=")
        lanes = [
            Lane("controller", "controller", "controller"),
            *(Lane(name, "broker", name.replace("-", " ")) for name in BROKERS),
            Lane("producer", "producer", "producer"),
            Lane("consumer", "consumer", "consumer"),
        ]
        title = f"{word}: the leader is killed after it has acknowledged"
        found = Timeline(
            "simulation", str(scenario(self.acks, 17)), title, lanes, self.events, records
        )
        found.counts = ledger.count()
        return found

    # --- what happens ---

    def begin(self, t: float) -> None:
        for name in BROKERS:
            state: Document = {"is_up": True, "is_leader": name == "node-1", "leader_epoch": 1}
            state |= {"log_end_offset": 0, "high_watermark": 0, "last_stable_offset": 0}
            if name == "node-1":
                state["isr"] = [1, 2, 3]
            self.event(t, name, "start", "starts", state=state)
        self.event(t, "controller", "note", "node 1 leads", state={"epoch": 1})
        self.event(t, "consumer", "start", "joins", state={"position": 0, "committed": 0})
        for number, record in enumerate(self.records):
            at = 0.01 + 0.02 * number + self.dice.random() * 0.004
            self.later(at, partial(self.send, record))
        self.later(KILLED_AT, self.kill)
        self.later(0.1, self.poll)

    def send(self, record: str, t: float) -> None:
        to = self.leader
        if to is None:
            self.later(t + 0.05, partial(self.send, record))
            return
        arrives = t + 0.001 + self.dice.random() * 0.002
        text = f"sends {record} to {to}"
        self.event(t, "producer", "send", text, record=record, to=to, arrives=arrives)
        self.later(arrives, partial(self.append, to, record))

    def append(self, node: str, record: str, t: float) -> None:
        if node != self.leader:
            self.event(t, node, "note", f"is down: {record} is lost", record=record)
            self.later(t + 0.1, partial(self.send, record))
            return
        self.logs[node].append(record)
        end = len(self.logs[node])
        text = f"appends {record} at {end - 1}"
        self.event(t, node, "append", text, record=record, state={"log_end_offset": end})
        if self.acks is Acks.LEADER:
            self.acknowledge(t, node, record)
        is_cut = t > KILLED_AT - 0.045 and node == "node-1"
        for follower in BROKERS:
            if follower != node and not (follower == "node-1" and node != "node-1"):
                arrives = None if is_cut else t + 0.002 + self.dice.random() * 0.004
                text = f"sends {record} to {follower}"
                self.event(t, node, "send", text, record=record, to=follower, arrives=arrives)
                if arrives is not None:
                    self.later(arrives, partial(self.replicate, follower, record))

    def acknowledge(self, t: float, node: str, record: str) -> None:
        arrives = t + 0.001 + self.dice.random() * 0.001
        text = f"acknowledges {record}"
        self.event(t, node, "send", text, record=record, to="producer", arrives=arrives)
        self.later(arrives, partial(self.learn, record))

    def learn(self, record: str, t: float) -> None:
        self.acknowledged.append(record)
        state = {"acknowledged": len(self.acknowledged)}
        text = f"learns that {record} is stored"
        self.event(t, "producer", "acknowledge", text, record=record, state=state)

    def replicate(self, node: str, record: str, t: float) -> None:
        if record in self.logs[node] or self.leader is None:
            return
        self.logs[node].append(record)
        state = {"log_end_offset": len(self.logs[node])}
        text = f"has {record} at {len(self.logs[node]) - 1}"
        self.event(t, node, "replicate", text, record=record, state=state)
        least = min(len(log) for name, log in self.logs.items() if name in self.in_sync())
        if least > self.high_watermark:
            self.high_watermark = least
            state = {"high_watermark": least, "last_stable_offset": least}
            text = f"high watermark {least}"
            self.event(t, self.leader, "advance", text, state=state)
            if self.acks is Acks.ALL:
                self.acknowledge(t, self.leader, self.logs[self.leader][least - 1])

    def in_sync(self) -> tuple[str, ...]:
        return BROKERS if self.leader == "node-1" else BROKERS[1:]

    def kill(self, t: float) -> None:
        self.leader = None
        state = {"is_up": False, "is_leader": False}
        self.event(t, "node-1", "kill", "is killed", state=state)
        self.later(t + 0.12, self.elect)

    def elect(self, t: float) -> None:
        self.leader = "node-2"
        self.event(t, "controller", "elect", "node 2 leads from epoch 2", state={"epoch": 2})
        self.high_watermark = min(len(self.logs["node-2"]), len(self.logs["node-3"]))
        state = {"is_leader": True, "leader_epoch": 2, "isr": [2, 3]}
        self.event(t, "node-2", "elect", "begins to lead", state=state)
        state = {"high_watermark": self.high_watermark, "leader_epoch": 2}
        self.event(t, "node-3", "isr", "follows node 2", state=state)
        if self.acks is Acks.ALL:
            missing = [one for one in self.records if one not in self.acknowledged]
            for number, record in enumerate(missing):
                if record in self.logs["node-1"]:
                    at = t + 0.01 + number * 0.003
                    self.event(t, "producer", "retry", f"sends {record} again", record=record)
                    self.later(at, partial(self.send, record))

    def poll(self, t: float) -> None:
        log = self.logs[self.leader or "node-1"][: self.high_watermark]
        for record in log[len(self.read) :]:
            self.read.append(record)
            state = {"position": len(self.read)}
            self.event(t, "consumer", "read", f"is given {record}", record=record, state=state)
        state = {"committed": len(self.read)}
        self.event(t, "consumer", "commit", f"commits {len(self.read)}", state=state)
        if t < 0.1 + 0.022 * len(self.records):
            self.later(t + 0.1, self.poll)


def timeline(acks: Acks = Acks.LEADER, seed: int = 17, records: int = 40) -> Document:
    return Play(acks, seed, records).timeline().to_json()


# --- counts ---------------------------------------------------------------------------------------


def chance(cell: Cell, effect: str) -> float:
    """How often a run of a cell has an effect, as we would expect it."""
    producer, topic, consumer, fault = cell
    if fault is Fault.NONE:
        return 0.3 if (effect, producer.acks) == ("lost", Acks.NONE) else 0
    if consumer is not None:
        return chance_of_consumer(consumer.commit, effect)
    if effect == "lost":
        if fault is Fault.POWER_LOSS_ALL and not topic.is_synced:
            return 0.9
        if producer.acks is Acks.NONE:
            return 0.62
        is_replica_lost = fault in {Fault.LEADER_KILLED_AFTER_ACK, Fault.LEADER_ISOLATED}
        if producer.acks is Acks.LEADER and topic.replicas == 3 and is_replica_lost:
            return 0.44
        if fault is Fault.ISR_SHRUNK and topic.min_insync == 1 and topic.replicas == 3:
            return 0.71
    if producer.acks is Acks.NONE or not producer.retries or producer.is_idempotent:
        return 0
    if effect == "repeated":
        return 0.35 if fault is Fault.ACK_LOST else 0.08
    return 0.22 if effect == "reordered" and producer.in_flight_max > 1 else 0


def chance_of_consumer(commit: Commit, effect: str) -> float:
    loses = {Commit.AUTO: 0.4, Commit.BEFORE: 0.55}
    repeats = {Commit.AUTO: 0.2, Commit.AUTO_ON_POLL: 0.4}
    repeats |= {Commit.AFTER_SYNC: 0.3, Commit.AFTER_ASYNC: 0.45}
    return {"lost": loses, "repeated": repeats}.get(effect, {}).get(commit, 0)


def results(dice: Random, runs: int, keep: Callable[[Cell], bool]) -> dict[Cell, CellResult]:
    found: dict[Cell, CellResult] = {}
    for cell in cells():
        if not keep(cell):
            continue
        result = CellResult(runs=runs, counts=Counts(sent=30 * runs, trusted=28 * runs))
        for effect in SHOWN:
            share = chance(cell, effect)
            hits = sum(dice.random() < share for _ in range(runs)) if share else 0
            if hits:
                result.runs_with[effect] = hits
                result.counts = result.counts._replace(**{effect: hits * dice.randrange(1, 4)})
                result.examples[effect] = str(Scenario(cell, dice.randrange(100)))
        latency = {Acks.NONE: 0.0001, Acks.LEADER: 0.0016, Acks.ALL: 0.0041}[cell.producer.acks]
        result.measures["ack_s"] = [latency]
        result.measures["commit_s"] = [0.011]
        found[cell] = result
    return found


def judgement_to_json(one: Judgement) -> Document:
    document: Document = {
        "verdict": one.verdict.value,
        "runs": one.runs,
        "counts": one.counts._asdict(),
        "why": one.why,
    }
    if one.example is not None:
        faults = ["node 1 is killed at 0.4 s", "its messages to the followers are late"]
        document["example"] = {"seed": one.example, "faults": faults, "counts": {}}
    return document


def cell_to_json(cell: Cell, found: dict[str, dict[Cell, CellResult]]) -> Document:
    producer, topic, consumer, fault = cell
    words = {
        "producer": f"{producer.acks.word} {'with' if producer.retries else 'without'} retries",
        "topic": f"{topic.replicas} replicas, min.insync.replicas={topic.min_insync}",
        "consumer": "no consumer" if consumer is None else f"commits {consumer.commit.value}",
        "fault": fault.value.replace("-", " "),
    }
    engines = {
        name: {
            "runs": result.runs,
            "runs_with": dict(result.runs_with),
            "counts": result.counts._asdict(),
            "examples": result.examples,
        }
        for name, results in found.items()
        if (result := results.get(cell)) is not None
    }
    return {"id": str(cell), "words": words, "engines": engines}


# --- plots ----------------------------------------------------------------------------------------


def walk(dice: Random, step: float, up: int) -> Iterator[list[float]]:
    lag = 0.0
    for number in range(400):
        t = number * step
        lag = max(0.0, lag + dice.choice((-2, -1, 0, 1, 2)))
        if 1.5 < t < 2.2:
            lag += up * step * 20
        elif t >= 2.2:
            lag = max(0.0, lag - 4)
        yield [round(t, 3), lag]


def plots(dice: Random) -> Document:
    middles = {"acks=0": 0.00012, "acks=1": 0.0016, "acks=all": 0.0041}
    lag = {name: list(walk(dice, 0.01, up)) for name, up in (("acks=1", 8), ("acks=all", 20))}
    return {
        "latency_by_acks": {
            name: [dice.lognormvariate(0, 0.45) * middle for _ in range(1000)]
            for name, middle in middles.items()
        },
        "lag": lag,
        "staleness": {name: [[t, y * 0.012] for t, y in points] for name, points in lag.items()},
        "consumed_times": {
            "commit before": {"0": 31, "1": 969, "2": 0},
            "commit after": {"0": 0, "1": 948, "2": 52},
            "transaction": {"0": 0, "1": 1000, "2": 0},
        },
    }


# --- all ------------------------------------------------------------------------------------------


def document(seed: int = 7, unexpected: str | None = None) -> Document:
    """A whole document; `unexpected` is the id of a claim that gets the wrong stamp."""
    dice = Random(seed)
    found = {
        "simulation": results(dice, 50, lambda cell: True),
        "processes": results(dice, 2, lambda cell: dice.random() < 0.5),
    }
    timelines = {one["scenario"]: one for one in side_by_side()}
    pair = list(timelines)
    claims: list[Document] = []
    for claim in CLAIMS:
        judged = {name: judge(claim, result) for name, result in found.items()}
        one: Document = {
            "id": claim.id,
            "statement": claim.statement,
            "because": claim.because,
            "expected": claim.expected,
            "verdict": overall(judged.values()).value,
            "engines": {name: judgement_to_json(each) for name, each in judged.items()},
        }
        if claim.id == "acks1-loses-with-the-leader":
            one["engines"]["simulation"]["example"]["seed"] = pair[0]
        if claim.id == unexpected:
            one["verdict"] = "false" if claim.expected else "true"
        claims.append(one)
    return {
        "format": 1,
        "minikafka": "0.1.0",
        "python": "3.11.7",
        "started": "2026-11-23T02:30:00Z",
        "seconds": 212.0,
        "is_quick": True,
        "is_as_expected": unexpected is None,
        "engines": {
            "simulation": {"version": "of minikafka 0.1.0", "runs": 51600, "recorded": None},
            "processes": {
                "version": "minikafka 0.1.0",
                "runs": 1032,
                "recorded": "2026-11-20T09:00:00Z",
            },
            "apache-kafka": {"missing": "no Java on this machine"},
        },
        "claims": claims,
        "cells": [cell_to_json(cell, found) for cell in found["simulation"]],
        "side_by_side": pair,
        "timelines": timelines,
        "plots": plots(dice),
    }
