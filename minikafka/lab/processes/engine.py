"""Runs scenarios on a target: real clients, real brokers, real signals."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from random import Random
from statistics import median
from typing import Final

from ..engine import Run
from ..matrix import Cell, Commit, Fault
from ..scenario import Scenario
from ..timeline import Lane, LaneKind, Timeline
from .children import Children
from .consuming import Consuming
from .killed_producers import kill_producer
from .producing import Sending
from .reading import read_to_the_end
from .stage import Stage
from .strikes import NEEDS
from .target import Target
from .worker import results_topic_of

_CALM_MIN: Final = 3
_CALM_MAX: Final = 6
_BURST_MIN: Final = 3
_BURST_MAX: Final = 6
_STRIKES_MAX: Final = 3
_runs = itertools.count(1)

_OF_CLIENTS: Final = frozenset(fault for fault in Fault if fault not in NEEDS)
_ALONE: Final = frozenset(
    {
        Fault.LEADER_ISOLATED,
        Fault.FOLLOWER_ISOLATED,
        Fault.ISR_SHRUNK,
        Fault.ROLLING_RESTART,
        Fault.LEADER_PAUSED,
    }
)
"""They need replicas to go on."""


class ProcessesEngine:
    """Runs scenarios on a target; see `minikafka.lab.engine.Engine`.

    The target is started once, and restored after each run. What a seed leaves to chance is the
    same each time; what the operating system does in between is not, so a run has no fingerprint.

    Args:
        target: the cluster, which belongs to the engine from now on.
        witness: called after each run with its scenario and where it took place.
        keeps_topics: leave the topics of the runs where they are.
    """

    def __init__(
        self,
        target: Target,
        witness: Callable[[Scenario, Stage], None] | None = None,
        *,
        keeps_topics: bool = False,
    ) -> None:
        self.name = "processes" if target.name == "minikafka" else target.name
        self.version = target.version
        self._target = target
        self._children = Children(target.patience_s)
        self.witness = witness
        self.keeps_topics = keeps_topics

    def close(self) -> None:
        """End the target, and the clients that wait for work."""
        self._children.close()
        self._target.close()

    @property
    def bootstrap(self) -> str:
        """Of the target, for clients."""
        return self._target.bootstrap

    @property
    def properties(self) -> Mapping[str, str]:
        """What clients need besides, by Kafka's names."""
        return self._target.properties

    def why_not(self, cell: Cell) -> str | None:
        """Why it cannot run a cell, in one line; None if it can."""
        fault = cell.fault
        if fault in _ALONE and cell.topic.replicas == 1:
            return f"{fault.value} needs several replicas"
        missing = NEEDS.get(fault, frozenset()) - self._target.can
        if missing:
            words = ", ".join(sorted(one.value for one in missing))
            return f"{self._target.name} has no way to {words}"
        if cell.topic.replicas > len(self._target.nodes):
            return f"{cell.topic.replicas} replicas need more nodes than {self._target.name} has"
        if cell.consumer is None:
            return None
        if cell.consumer.commit is Commit.SPARK_SINK:
            if fault in {Fault.CONSUMER_PAUSED, Fault.REBALANCE, Fault.COORDINATOR_KILLED}:
                return "a Spark query is in no group, and is not paused"
            if self._target.name == "verify":
                return "a Spark query takes longer than all other scenarios together"
            return _why_no_spark()
        if cell.consumer.commit is Commit.TRANSACTION and not cell.consumer.is_read_committed:
            return "our consume-transform-produce reads committed records only"
        if cell.consumer.commit is Commit.TWO_PHASE and self._target.name != "minikafka":
            return "two-phase commit needs a broker that lets clients take part in it (KIP-939)"
        if cell.consumer.commit is Commit.TWO_PHASE and fault is Fault.REBALANCE:
            return "the two-phase program reads without a group"
        return None

    def run(self, scenario: Scenario) -> Run:
        """Run a scenario.

        Raises:
            CannotError: the target did not do what was asked of it.
            ValueError: the cell cannot be run here.
        """
        reason = self.why_not(scenario.cell)
        if reason is not None:
            raise ValueError(f"{scenario.cell} cannot be run: {reason}")
        cell = scenario.cell
        dice = Random(f"{cell}@{scenario.seed}")
        partitions = 1 if cell.consumer is None or cell.fault is not Fault.REBALANCE else 2
        name = f"lab-{os.getpid()}-{next(_runs)}"
        stage = Stage(self._target, name, cell.topic, partitions, dice)
        for node in stage.addresses:
            stage.note(f"node-{node}", "start", "runs", state={"is_up": True})
        try:
            ran = _Ran(stage, scenario, self._children)
            ran.do()
            if self.witness is not None:
                self.witness(scenario, stage)
        finally:
            self._target.restore()
            if not self.keeps_topics:
                stage.delete_topics(name, results_topic_of(name))
        return ran.run(self.name)


class _Ran:
    """One run."""

    def __init__(self, stage: Stage, scenario: Scenario, children: Children) -> None:
        self._stage = stage
        self._children = children
        self._scenario = scenario
        self._cell = scenario.cell
        self._sending = Sending(stage, self._cell.producer)
        self._consuming = (
            None if self._cell.consumer is None else Consuming(stage, self._cell, children)
        )

    def do(self) -> None:
        stage, cell = self._stage, self._cell
        numbers = range(1 + self._scenario.seed % _STRIKES_MAX)
        kept = [n for n in numbers if self._scenario.kept is None or n in self._scenario.kept]
        if cell.fault is Fault.PRODUCER_KILLED:
            self._kill_producers(kept)
        with self._sending.opened():
            self._sending.calmly(stage.dice.randint(_CALM_MIN, _CALM_MAX))
            if self._consuming is not None:
                self._consuming.begin(kept)
            for number in numbers:
                if cell.fault in NEEDS and number in kept:
                    size = stage.dice.randint(_BURST_MIN, _BURST_MAX)
                    self._sending.under(cell, number, size)
                self._sending.calmly(stage.dice.randint(_CALM_MIN, _CALM_MAX))
            if self._consuming is not None or cell.fault is Fault.NONE:
                self._sending.calmly(_BURST_MAX * _STRIKES_MAX)
        stage.logs = read_to_the_end(
            stage.target.bootstrap, stage.topic, stage.partitions, stage.connection
        )
        stage.ledger.log = [value for log in stage.logs for _, value in log]
        if self._consuming is not None:
            self._consuming.end(self._sending.sent_at)
        stage.look()

    def _kill_producers(self, kept: list[int]) -> None:
        for number in kept:
            kill_producer(self._stage, self._cell, number, self._sending, self._children)

    def run(self, engine: str) -> Run:
        stage = self._stage
        measures: dict[str, float] = {}
        samples: dict[str, list[float]] = {}
        if self._consuming is not None:
            samples |= self._consuming.samples()
        if stage.target.is_direct:
            samples["ack_s"] = self._sending.ack_s
        else:
            samples.pop("commit_s", None)  # it would be the proxy's time, too
        measures = {name: median(values) for name, values in samples.items() if values}
        counts = stage.ledger.count()
        return Run(
            scenario=self._scenario,
            counts=counts,
            faults=dict(stage.faults),
            timeline=lambda: timeline_of(engine, self._scenario, stage),
            measures=measures,
            samples=samples,
        )


def _why_no_spark() -> str | None:
    if find_spec("pyspark") is None or find_spec("pyspark_minikafka") is None:
        return "a Spark query needs PySpark: pip install minikafka[spark]"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "a Spark query needs Java 17"
    return None


def timeline_of(engine: str, scenario: Scenario, stage: Stage) -> Timeline:
    """What was seen of a run from outside."""
    events = sorted(stage.events, key=lambda one: one.t)
    lanes = [Lane("producer", "producer", "producer")]
    lanes += [Lane(f"node-{node}", "broker", f"node {node}") for node in sorted(stage.addresses)]
    others = dict.fromkeys(one.lane for one in events)
    for lane in others:
        if lane not in {known.id for known in lanes}:
            kind: LaneKind = "database" if lane == "database" else "consumer"
            lanes.append(Lane(lane, kind, lane.replace("-", " ")))
    return Timeline(
        engine=engine,
        scenario=str(scenario),
        title=f"{scenario.cell.fault.value}: {scenario.cell}",
        lanes=lanes,
        events=events,
        records=_records(stage),
        counts=stage.ledger.count(),
    )


def _records(stage: Stage) -> dict[str, dict[str, object]]:
    ledger = stage.ledger
    offsets: dict[str, int] = {}
    for log in stage.logs:
        for offset, value in log:
            offsets.setdefault(value, offset)
    found: dict[str, dict[str, object]] = {}
    for _, value in ledger.sent:
        one: dict[str, object] = {
            "fate": ledger.fates[value].value if value in ledger.fates else "unknown",
            "copies": ledger.log.count(value),
        }
        if ledger.results is not None:
            one["results"] = ledger.results.count(value)
        if value in offsets:
            one["offset"] = offsets[value]
        found[value] = one
    return found
