"""A scheduler like Spark's that repeats, doubles, delays and kills tasks and drivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from minikafka.coordinator.transaction import TransactionState
from pyspark_minikafka.sink import protocol
from pyspark_minikafka.sink.errors import LostTransactionError
from pyspark_minikafka.sink.protocol import Place, Result
from tests.spark.sink.actors import Actor
from tests.spark.sink.model import TIMEOUT_MS, ModelDriverKafka, ModelKafka, ModelTaskKafka

QUERY = "query"
ROWS_PER_BATCH = 6
FAILURES_MAX = 3
TROUBLES = ("kill", "twin", "twice", "crash", "fail", *("zombie",) * 6, "time", "move")


@dataclass
class Attempt:
    """An attempt of a task."""

    partition: int
    actor: Actor[Result]


@dataclass
class Run:
    """One start of the query."""

    run_id: str
    batch_id: int = 0
    task_count: int = 1
    attempts: list[Attempt] = field(default_factory=list)
    attempt_numbers: dict[int, int] = field(default_factory=dict)
    failures: int = 0
    accepted: dict[int, Result] = field(default_factory=dict)
    driver: Actor[None] | None = None
    aborter: Actor[None] | None = None


class Simulation:
    """Batches of a query, until all are written.

    Args:
        dice: makes all choices.
        batches: their number.
        allows_two_phases: whether the broker allows two-phase commit (KIP-939).
    """

    def __init__(self, dice: Random, batches: int, *, allows_two_phases: bool) -> None:
        self.kafka = ModelKafka(allows_two_phases=allows_two_phases)
        self.lost: set[int] = set()
        self._dice = dice
        self._batches = batches
        self._allows_two_phases = allows_two_phases
        self._is_calm = False
        self._zombies: list[Actor[Result] | Actor[None]] = []
        self._unique = 0
        self._runs = 0
        self._run = self._new_run(0)

    # --- what is expected ---

    @staticmethod
    def rows(batch_id: int) -> list[str]:
        return [f"{batch_id}-{number}" for number in range(ROWS_PER_BATCH)]

    def check(self) -> None:
        """No row is duplicated, and none of a finished batch is missing."""
        visible = self.kafka.visible
        assert len(visible) == len(set(visible)), "twice"
        for batch_id in range(self._run.batch_id):
            if batch_id not in self.lost:
                assert set(self.rows(batch_id)) <= set(visible), f"of batch {batch_id}"

    def check_end(self) -> None:
        """All rows are visible, and no transaction is open."""
        self.check()
        assert not (self._allows_two_phases and self.lost), "what is prepared never times out"
        assert self.kafka.transactions(TransactionState.ONGOING) == []

    # --- the run ---

    def play(self, steps: int) -> None:
        """Make trouble for a number of steps, then write all batches in peace."""
        for _ in range(steps):
            if self._run.batch_id == self._batches:
                break
            self._tick()
            self.check()
        self._is_calm = True
        self.kafka.failures_ahead.clear()
        for zombie in self._zombies:
            self._end(zombie)
        self._batches += 1  # another batch ends what zombies have left open
        while self._run.batch_id < self._batches:
            self._tick()
        self.check_end()
        self.close()

    def close(self) -> None:
        """Stop all threads."""
        run = self._run
        drivers = [actor for actor in (run.driver, run.aborter) if actor is not None]
        for actor in (*self._zombies, *(attempt.actor for attempt in run.attempts), *drivers):
            actor.kill()

    def _end(self, zombie: Actor[Result] | Actor[None]) -> None:
        if self._dice.random() < 0.5:
            zombie.kill()
        else:
            zombie.finish()

    def _new_run(self, batch_id: int) -> Run:
        self._runs += 1
        run = Run(f"run-{self._runs}")
        self._plan(run, batch_id)
        return run

    def _plan(self, run: Run, batch_id: int) -> None:
        run.batch_id = batch_id
        run.task_count = self._dice.randint(1, 3)
        run.attempts, run.attempt_numbers, run.accepted = [], {}, {}
        run.failures = 0
        run.driver = None

    def _tick(self) -> None:
        run = self._run
        if not self._is_calm and self._dice.random() < 0.25:
            self._trouble(run)
        elif run.aborter is not None:
            self._step_aborter(run)
        elif run.driver is not None:
            self._step_driver(run, run.driver)
        elif len(run.accepted) == run.task_count:
            self._start_driver(run)
        else:
            self._step_task(run)

    def _step_task(self, run: Run) -> None:
        missing = [
            each
            for each in range(run.task_count)
            if each not in run.accepted and all(a.partition != each for a in run.attempts)
        ]
        if missing:
            self._launch(run, missing[0], is_twin=False)
            return
        attempt = self._dice.choice(run.attempts)
        attempt.actor.step()
        if not attempt.actor.is_over:
            return
        run.attempts.remove(attempt)
        if attempt.actor.error is not None:
            run.failures += 1
            if run.failures > FAILURES_MAX:
                self._fail(run)
        elif attempt.actor.result is not None:
            run.accepted.setdefault(attempt.partition, attempt.actor.result)

    def _launch(self, run: Run, partition: int, *, is_twin: bool) -> None:
        """Start an attempt; a twin is a second first attempt, as in a repeated stage."""
        number = 0 if is_twin else run.attempt_numbers.get(partition, 0)
        run.attempt_numbers[partition] = max(run.attempt_numbers.get(partition, 0), number + 1)
        self._unique += 1
        unique = protocol.new_id(f"{QUERY}-", run.batch_id, "x", self._unique)
        place = Place(QUERY, run.run_id, run.batch_id, partition, number, unique)
        rows = self.rows(run.batch_id)[partition :: run.task_count]
        kafka = self.kafka
        actor: Actor[Result] = Actor(
            lambda pause: protocol.run_task(ModelTaskKafka(kafka, pause), place, iter(rows))
        )
        run.attempts.append(Attempt(partition, actor))

    def _start_driver(self, run: Run) -> None:
        self._zombies += [attempt.actor for attempt in run.attempts]
        run.attempts = []
        results = [run.accepted[each] for each in range(run.task_count)]
        kafka, batch_id = self.kafka, run.batch_id
        fails = batch_id not in self.lost
        run.driver = Actor(
            lambda pause: protocol.commit(
                ModelDriverKafka(kafka, pause), batch_id, results, fail_on_data_loss=fails
            )
        )

    def _step_driver(self, run: Run, driver: Actor[None]) -> None:
        driver.step()
        if not driver.is_over:
            return
        if driver.error is None:
            self._plan(run, run.batch_id + 1)
            return
        if isinstance(driver.error, LostTransactionError):
            self.lost.add(run.batch_id)
        self._fail(run)

    def _fail(self, run: Run) -> None:
        """Give up a batch as Spark does: abort it in the sink, and end the query."""
        results = list(run.accepted.values())
        kafka, batch_id = self.kafka, run.batch_id
        run.aborter = Actor(
            lambda pause: protocol.abort(ModelDriverKafka(kafka, pause), batch_id, results)
        )

    def _step_aborter(self, run: Run) -> None:
        assert run.aborter is not None
        run.aborter.step()
        if run.aborter.is_over:
            self._crash(run)

    # --- trouble ---

    def _trouble(self, run: Run) -> None:
        dice = self._dice
        match dice.choice(TROUBLES):
            case "kill" if run.attempts:
                attempt = dice.choice(run.attempts)
                run.attempts.remove(attempt)
                self._lose(attempt.actor)
            case "twin" if run.attempts and run.driver is None:
                self._launch(run, dice.choice(run.attempts).partition, is_twin=True)
            case "twice" if run.attempts and run.driver is None:
                self._launch(run, dice.choice(run.attempts).partition, is_twin=False)
            case "crash":
                self._crash(run)
            case "zombie" if self._zombies:
                zombie = dice.choice(self._zombies)
                zombie.step()
                if zombie.is_over:
                    self._zombies.remove(zombie)
            case "time":
                self.kafka.pass_time(TIMEOUT_MS / 1000 * dice.choice((0.1, 2)))
            case "fail":
                self.kafka.failures_ahead.append(dice.random() < 0.5)
            case "move":
                self.kafka.coordinator.fail_over()
                self.kafka.take_markers()
            case _:
                pass

    def _crash(self, run: Run) -> None:
        """Kill the driver; tasks that it started may continue for a while."""
        for attempt in run.attempts:
            self._lose(attempt.actor)
        for actor in (run.driver, run.aborter):
            if actor is not None:
                self._lose(actor)
        self._run = self._new_run(run.batch_id)

    def _lose(self, actor: Actor[Result] | Actor[None]) -> None:
        if self._dice.random() < 0.5:
            actor.kill()
        elif not actor.is_over:
            self._zombies.append(actor)
