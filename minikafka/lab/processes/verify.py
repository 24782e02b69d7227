"""Verifies any cluster: random scenarios of what is promised, judged by the ledger and the checker.

engine = engine_for("verify", bootstrap="localhost:9092", hooks=Hooks.parse(words))
try:
    verification = verify(engine, seconds=120)
finally:
    engine.close()
sys.exit(verification.exit_code)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

from minikafka.testing.history.checker import Report
from minikafka_client.errors import KafkaError

from ..claims import CLAIMS, Bound, Says
from ..ledger import Counts
from ..matrix import Cell, Fault, TopicMode
from ..results import CellResult
from ..scenario import Scenario
from .choice import representative
from .engine import ProcessesEngine
from .histories import check_run
from .stage import Stage
from .strikes import NEEDS
from .target import CannotError
from .verify_target import HookError, Hooks, UnreachableError

Counting = Literal["plain", "spark"]

_FAILURES_IN_A_ROW_MAX: Final = 3
_SHOWN_ONE_OF: Final = 4
"""Every so many scenarios, one of a claim that says what can happen."""
_CONNECTIONS: Final = {Fault.ACK_LOST, Fault.REQUEST_LOST}
"""They take a connection, and no node, away."""
_TELLING: Final = (
    Fault.ACK_LOST,
    Fault.LEADER_KILLED_AFTER_ACK,
    Fault.ISR_SHRUNK,
    Fault.LEADER_KILLED_AFTER_APPEND,
    Fault.COORDINATOR_KILLED,
    Fault.PRODUCER_KILLED,
    Fault.NONE,
    Fault.CONSUMER_KILLED_BETWEEN,
)
"""What shows most of what can be wrong, the most first."""
_SEED_BITS: Final = 31

EXIT_GOOD: Final = 0
EXIT_BROKEN: Final = 1
EXIT_UNUSABLE: Final = 2


class Breach(NamedTuple):
    """A promise that was broken.

    Attributes:
        promise: id of the claim, or ``history`` for what the checker found.
        scenario: its token.
        text: what happened, in words.
    """

    promise: str
    scenario: str
    text: str


class Progress(NamedTuple):
    """How far it is.

    Attributes:
        seconds: that have passed.
        of_seconds: that were asked for.
        runs: how many are done.
        scenario: the token of the one that begins.
        breaches: how many promises were broken so far.
    """

    seconds: float
    of_seconds: float
    runs: int
    scenario: str
    breaches: int


@dataclass
class Verification:
    """What came of it.

    Attributes:
        found: by cell, for `minikafka.lab.results.judge`.
        breaches: what broke a promise, in the order of time.
        failures: why runs could not be ended: the cluster, or a hook, did not do its part.
        is_usable: whether the cluster could be reached and the hooks worked.
        is_interrupted: whether Ctrl-C ended it; the run that it ended is not judged.
        seconds: how long it took.
    """

    found: dict[Cell, CellResult] = field(default_factory=dict[Cell, CellResult])
    breaches: list[Breach] = field(default_factory=list[Breach])
    failures: list[str] = field(default_factory=list[str])
    is_usable: bool = True
    is_interrupted: bool = False
    seconds: float = 0.0

    @property
    def runs(self) -> int:
        """How many runs were judged."""
        return sum(result.runs for result in self.found.values())

    @property
    def exit_code(self) -> int:
        """0: nothing is broken; 1: a promise is; 2: it could not be found out."""
        if self.breaches:
            return EXIT_BROKEN
        return EXIT_GOOD if self.is_usable and self.runs else EXIT_UNUSABLE


def engine_for(
    name: str,
    *,
    bootstrap: str = "",
    hooks: Hooks | None = None,
    properties: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> ProcessesEngine:
    """An engine by its name; it starts, or reaches, its cluster.

    Args:
        name: ``processes``, ``apache-kafka`` or ``verify``.
        bootstrap: of the cluster to verify.
        hooks: commands for it.
        properties: what its clients need besides, by Kafka's names.
        home: Apache Kafka's distribution or jars; KAFKA_HOME if None.

    Raises:
        ValueError: there is no such engine, it needs a bootstrap address, or a property is
            malformed.
        TypeError: a property is unknown.
        NoApacheKafkaError: there is no Apache Kafka to run.
        UnreachableError: no broker of the cluster answers.
        BrokerStartError: one of our brokers did not start.
        CannotError: one of Apache Kafka's did not start.
    """
    if name == "processes":
        from .minikafka_target import MinikafkaTarget

        return ProcessesEngine(MinikafkaTarget())
    if name == "apache-kafka":
        from .apache_kafka_target import ApacheKafkaTarget

        return ProcessesEngine(ApacheKafkaTarget(home))
    if name != "verify":
        raise ValueError(f"no engine is called {name!r}: processes, apache-kafka or verify")
    if not bootstrap:
        raise ValueError("verify needs the address of a cluster: --bootstrap HOST:PORT")
    from .verify_target import VerifyTarget

    return ProcessesEngine(VerifyTarget(bootstrap, hooks, properties))


def verify(
    engine: ProcessesEngine,
    *,
    seconds: float = 120.0,
    runs_max: int | None = None,
    seed: int = 0,
    count: Counting = "plain",
    progress: Callable[[Progress], None] | None = None,
) -> Verification:
    """Run random scenarios for some time; Ctrl-C ends it with what was found until then.

    Args:
        engine: of any target.
        seconds: no further run begins after this time.
        runs_max: no further run begins after so many.
        seed: of the choice of scenarios.
        count: ``spark`` counts all topics once more with the Spark audit job at the end; a
            difference between the two is a `ValueError`.
        progress: called before each run.

    Raises:
        ValueError: both counters do not agree.
    """
    verification = Verification()
    reports: list[Report] = []
    counted: dict[str, tuple[Counts, int]] = {}

    def witness(scenario: Scenario, stage: Stage) -> None:
        reports.append(check_run(scenario.cell, stage.ledger, stage.logs))
        in_log = replace(stage.ledger, results=None).count()
        counted[stage.topic] = in_log, in_log.sent

    engine.witness, engine.keeps_topics = witness, count == "spark"
    began = time.monotonic()
    scenarios, failures = scenarios_for(engine, Random(seed)), 0
    try:
        while (passed := time.monotonic() - began) < seconds and failures < _FAILURES_IN_A_ROW_MAX:
            if verification.runs == runs_max:
                break
            scenario = next(scenarios)
            if progress is not None:
                breaches = len(verification.breaches)
                progress(Progress(passed, seconds, verification.runs, str(scenario), breaches))
            reports.clear()
            try:
                run = engine.run(scenario)
            except (CannotError, KafkaError) as error:
                reasons = _reasons(error)
                told = "; then ".join(map(str, reasons))
                verification.failures.append(f"{scenario}: {told}")
                failures += 1
                if any(isinstance(one, (HookError, UnreachableError)) for one in reasons):
                    failures = _FAILURES_IN_A_ROW_MAX
                continue
            failures = 0
            verification.found.setdefault(scenario.cell, CellResult()).add(run)
            verification.breaches += breaches_of(scenario, run.counts, reports)
    except KeyboardInterrupt:
        verification.is_interrupted = True
    verification.is_usable = failures < _FAILURES_IN_A_ROW_MAX
    if count == "spark" and not verification.is_interrupted:
        from .spark_counts import check_with_spark

        check_with_spark(engine.bootstrap, counted, engine.properties)
    verification.seconds = time.monotonic() - began
    return verification


def _reasons(error: BaseException) -> list[BaseException]:
    """What failed in a run, and then in restoring the cluster."""
    before = [] if error.__context__ is None else _reasons(error.__context__)
    return [*before, error] if isinstance(error, (CannotError, KafkaError)) else before


def scenarios_for(engine: ProcessesEngine, dice: Random) -> Iterator[Scenario]:
    """Scenarios without end: first those that decide claims, each kind of fault early.

    Raises (while iterating):
        CannotError: the engine can run none.
    """
    deciding = dict.fromkeys(
        cell
        for claim in CLAIMS
        if claim.expected is True and any(one.bound is Bound.NEVER for one in claim.says)
        for cell in representative(claim)
        if engine.why_not(cell) is None
    )
    for cell in _by_turns(deciding):
        yield Scenario(cell, dice.getrandbits(_SEED_BITS))
    while True:
        yield draw(engine, dice)


def _by_turns(cells: Iterable[Cell]) -> Iterator[Cell]:
    """A lost connection, a node that dies, a client that dies, and so on; producers alone first.

    A cluster that breaks a promise at all is to be caught in the first minute.
    """
    kinds: tuple[list[Cell], ...] = [], [], []
    for cell in sorted(cells, key=_by_tale):
        kinds[0 if cell.fault in _CONNECTIONS else 1 if cell.fault in NEEDS else 2].append(cell)
    for turn in zip_longest(*kinds):
        yield from (cell for cell in turn if cell is not None)


def _by_tale(cell: Cell) -> tuple[bool, int, bool, bool]:
    rank = _TELLING.index(cell.fault) if cell.fault in _TELLING else len(_TELLING)
    producer = cell.producer
    return (
        cell.consumer is not None,
        rank,
        not producer.is_idempotent,
        not producer.is_transactional,
    )


def draw(engine: ProcessesEngine, dice: Random) -> Scenario:
    """A scenario of a claim that we expect to hold, which the engine can run.

    Raises:
        CannotError: it can run none.
    """
    bound = Bound.SHOWN if dice.randrange(_SHOWN_ONE_OF) == 0 else Bound.NEVER
    promises = [
        one
        for claim in CLAIMS
        if claim.expected is True
        for one in claim.says
        if one.bound is bound
    ]
    dice.shuffle(promises)
    for promise in promises:
        cells = [cell for cell in promise.where.cells() if _is_usual(cell, engine)]
        if cells:
            return Scenario(dice.choice(cells), dice.getrandbits(_SEED_BITS))
    raise CannotError("there is no scenario that this cluster can run")


def _is_usual(cell: Cell, engine: ProcessesEngine) -> bool:
    if cell.topic not in {TopicMode(), TopicMode(1, 1)}:
        return False
    return engine.why_not(cell) is None


def breaches_of(scenario: Scenario, counts: Counts, reports: Sequence[Report]) -> list[Breach]:
    """What a run shows that was promised never to happen."""
    found: list[Breach] = []
    for claim in CLAIMS:
        if claim.expected is not True:
            continue
        for one in claim.says:
            if _is_broken(one, scenario.cell, counts):
                text = f"{one.what.replace('_', ' ')}: {getattr(counts, one.what)}"
                found.append(Breach(claim.id, str(scenario), text))
    bad = [str(report) for report in reports if not report.is_good]
    return found + [Breach("history", str(scenario), text) for text in bad]


def _is_broken(one: Says, cell: Cell, counts: Counts) -> bool:
    return one.bound is Bound.NEVER and one.where.has(cell) and getattr(counts, one.what) > 0
