"""One run of the transaction simulation, and what has to be true of it."""

from __future__ import annotations

from collections import Counter

from minikafka.coordinator.transaction import TopicPartition
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.run import Outcome, traced
from minikafka.testing.history import operations
from minikafka.testing.history.checker import check_history
from minikafka.testing.history.operations import Operation, Poll
from tests.simulation.transactions.producers import Producer, Tried
from tests.simulation.transactions.world import PLACES, Coordinator, Partition, World
from tests.storage.transactional import committed_records

MODULE = "tests.simulation.transactions"
STORM_S = 30.0
CALM_S = 20.0
NAMES = ("alpha", "beta")


class Simulation:
    """A cluster for transactions, two transactional ids, and a nemesis."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.partitions: dict[TopicPartition, Partition] = {}
        # In a list, because partitions know the coordinator and the coordinator them.
        self.coordinator: list[Coordinator] = []
        for place in PLACES:
            self.partitions[place] = Partition(self.world, place, self.coordinator)
        self.coordinator.append(Coordinator(self.world, self.partitions))
        self.history: list[Tried] = []
        self.seen: dict[TopicPartition, list[tuple[int, str]]] = {place: [] for place in PLACES}
        self.polls: list[Operation] = []
        self.version = {name: self.world.dice.choice((0, 2)) for name in NAMES}
        self._processes: list[Producer] = []
        self.producers = {name: self._new(name) for name in NAMES}

    def _new(self, name: str) -> Producer:
        producer = Producer(
            self.world,
            self.coordinator,
            self.partitions,
            name,
            self.history,
            version=self.version[name],
        )
        self._processes.append(producer)
        return producer

    def run(self) -> Outcome:
        """A storm, then calm, then everything has to be decided.

        Raises:
            SimulationFailed: a promise was broken.
        """
        with traced(MODULE, self.seed, self.world.trace):
            self._run()
        counts = Counter(tried.outcome for tried in self.history)
        return Outcome(self.seed, self.world.now, counts, self.world.whole_trace)

    def _run(self) -> None:
        self._trouble()
        self._read()
        self.world.run_until(STORM_S)
        self.world.is_calm = True
        for producer in self._processes:  # zombies, too
            producer.die()
        self.world.run_until(STORM_S + CALM_S)
        for partition in self.partitions.values():
            partition.settle()
        self.check()

    def _trouble(self) -> None:
        if self.world.is_calm:
            return
        dice = self.world.dice
        match dice.randrange(8):
            case 0:
                self.coordinator[0].fail_over()
            case 1 | 2:
                dice.choice(list(self.partitions.values())).fail_over()
            case 3 | 4:
                name = dice.choice(NAMES)
                old = self.producers[name]
                if dice.random() < 0.6:
                    old.die()  # else it goes on as a zombie
                self.producers[name] = self._new(name)
            case 5:
                self.world.wall_jump_ms += dice.choice((-3_600_000, -10_000, 10_000, 3_600_000))
            case _:
                for name, producer in self.producers.items():
                    if not producer.is_alive:
                        self.producers[name] = self._new(name)
        self.world.after(dice.uniform(0.1, 1.5), self._trouble)

    def _read(self) -> None:
        """A read_committed consumer looks now and then; what it saw it keeps."""
        for place, partition in self.partitions.items():
            records = committed_records(partition.log, 0)
            seen = self.seen[place]
            if records[: len(seen)] != seen:
                raise InvariantViolated(
                    "stable reads", f"{place}: a reader saw {seen[-3:]}, and now {records[-3:]}"
                )
            self._note_poll(f"reader of {place}", place, records[len(seen) :])
            self.seen[place] = records
        self.world.after(0.5, self._read)

    def _note_poll(
        self, process: str, place: TopicPartition, records: list[tuple[int, str]]
    ) -> None:
        if records:
            now = self.world.now
            poll = Poll({place: records})
            self.polls.append(Operation(process, operations.Outcome.OK, [poll], now, now))

    # --- promises ------------------------------------------------------------------------------

    def check(self) -> None:
        """All or nothing, once, and nothing left open."""
        visible: Counter[tuple[TopicPartition, str]] = Counter()
        for place, partition in self.partitions.items():
            log = partition.log
            if log.last_stable_offset != log.log_end_offset:
                raise InvariantViolated(
                    "hanging transaction",
                    f"{place} is stable up to {log.last_stable_offset} of {log.log_end_offset}",
                )
            records = committed_records(log, 0)
            visible.update((place, value) for _, value in records)
            self._note_poll(f"last reader of {place}", place, records)
        for key, times in visible.items():
            if times > 1:
                raise InvariantViolated("duplicate", f"{key} is there {times} times")
        for tried in self.history:
            wrote = [(place, one) for place, values in tried.values.items() for one in values]
            there = [one for one in wrote if one in visible]
            if there and len(there) < len(wrote):
                raise InvariantViolated("torn transaction", f"{tried.outcome}: {there} of {wrote}")
            if tried.outcome == "committed" and len(there) < len(wrote):
                raise InvariantViolated("lost write", f"{wrote} was committed")
            if tried.outcome in ("aborted", "open", "fenced") and there:
                raise InvariantViolated("aborted read", f"{there} was {tried.outcome}")
        history = [*(tried.operation() for tried in self.history), *self.polls]
        report = check_history(history)
        if not report.is_good:
            raise InvariantViolated("history", str(report))


def run_seed(seed: int) -> Outcome:
    """Run one seed; raises SimulationFailed."""
    return Simulation(seed).run()
