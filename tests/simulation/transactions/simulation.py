"""One run of the transaction simulation, and what has to be true of it."""

from __future__ import annotations

from collections import Counter

from minikafka.coordinator.transaction import TopicPartition
from tests.history.checker import check_history
from tests.history.operations import Operation, Outcome, Poll
from tests.simulation.transactions.producers import Producer, Tried
from tests.simulation.transactions.world import PLACES, Coordinator, Partition, World
from tests.storage.transactional import committed_records

STORM_S = 30.0
CALM_S = 20.0
NAMES = ("alpha", "beta")


class BrokenPromise(AssertionError):
    """What transactions promise does not hold; the text says which seed shows it."""


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

    def run(self) -> None:
        """A storm, then calm, then everything has to be decided."""
        self._trouble()
        self._read()
        self.world.run(STORM_S)
        self.world.is_calm = True
        for producer in self._processes:  # zombies, too
            producer.die()
        self.world.run(STORM_S + CALM_S)
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
                self._fail(f"{place}: a reader saw {seen[-3:]}, and now {records[-3:]}")
            self._note_poll(f"reader of {place}", place, records[len(seen) :])
            self.seen[place] = records
        self.world.after(0.5, self._read)

    def _note_poll(
        self, process: str, place: TopicPartition, records: list[tuple[int, str]]
    ) -> None:
        if records:
            now = self.world.now_s
            poll = Poll({place: records})
            self.polls.append(Operation(process, Outcome.OK, [poll], now, now))

    # --- promises ------------------------------------------------------------------------------

    def check(self) -> None:
        """All or nothing, once, and nothing left open."""
        visible: Counter[tuple[TopicPartition, str]] = Counter()
        for place, partition in self.partitions.items():
            log = partition.log
            if log.last_stable_offset != log.log_end_offset:
                self._fail(
                    f"{place}: hanging transaction: stable up to {log.last_stable_offset} of "
                    f"{log.log_end_offset}"
                )
            records = committed_records(log, 0)
            visible.update((place, value) for _, value in records)
            self._note_poll(f"last reader of {place}", place, records)
        for key, times in visible.items():
            if times > 1:
                self._fail(f"duplicate: {key} is there {times} times")
        for tried in self.history:
            wrote = [(place, one) for place, values in tried.values.items() for one in values]
            there = [one for one in wrote if one in visible]
            if there and len(there) < len(wrote):
                self._fail(f"torn transaction ({tried.outcome}): {there} of {wrote}")
            if tried.outcome == "committed" and len(there) < len(wrote):
                self._fail(f"lost write: {wrote} was committed")
            if tried.outcome in ("aborted", "open", "fenced") and there:
                self._fail(f"aborted read: {there} was {tried.outcome}")
        history = [*(tried.operation() for tried in self.history), *self.polls]
        report = check_history(history)
        if not report.is_good:
            self._fail(f"history: {report}")

    def _fail(self, promise: str) -> None:
        trace = "\n".join(self.world.trace[-60:])
        raise BrokenPromise(f"seed {self.seed}: {promise}\n{trace}")
