"""Whole brokers and transactions: exactly once, despite crashes and zombies.

Writers fill the input, copiers carry it to the output, each with a transactional id, half of them
as clients of before KIP-890. Besides everything that goes wrong in `simulation`, copiers crash in
the middle of a transaction, are replaced while they still run, repeat requests long after, markers
come twice, and brokers' clocks jump. In the end:

- the history has no anomaly that transactions forbid (aborted or precommitted reads, lost writes,
  torn transactions, circular information flow),
- every record of the input is in the output exactly once,
- no transaction is open anywhere, and the last stable offset is the end of the log,
- what was promised without transactions holds as well.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final
from unittest.mock import patch

from minikafka.broker.broker import Broker
from minikafka.broker.coordinators import runtime as shard_runtime
from minikafka.broker.coordinators.internal_topics import TRANSACTIONS_TOPIC
from minikafka.broker.coordinators.marker_sender import Asker
from minikafka.broker.coordinators.markers import Marker
from minikafka.coordinator.transaction import TopicPartition
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.run import Outcome
from minikafka.protocol.errors import ErrorCode
from minikafka.storage.log import Log
from minikafka.testing.history.checker import check_history
from minikafka.testing.history.operations import Assign
from minikafka.testing.history.recording import Recorder
from minikafka.testing.simulation.machines import NODES, SETTINGS
from minikafka.testing.simulation.network import pass_time
from tests.simulation.brokers.clients import PARTITIONS
from tests.simulation.brokers.committed_reading import OUTPUT, CommittedReader
from tests.simulation.brokers.copiers import Copier
from tests.simulation.brokers.simulation import Simulation, play
from tests.simulation.kit.command import run_seeds

TRANSACTION_SETTINGS: Final = (
    *(one for one in SETTINGS if not one.startswith("transaction.state")),
    "transaction.state.log.num.partitions=2",
    # Segments are rolled and compacted all the time, and read again by the next coordinators.
    "log.segment.bytes=4096",
    "transaction.state.log.segment.bytes=4096",
    "offsets.topic.segment.bytes=4096",
    "log.cleaner.backoff.ms=1000",
    "log.cleaner.min.cleanable.ratio=0.1",
)
_JUMPS_MS: Final = (-3_000_000, -10_000, 0, 10_000, 3_000_000)
"""Less than the hour after which brokers refuse timestamps (message.timestamp.after.max.ms)."""
_FAULTS_OF_CLIENTS: Final = 0.45
_RECORDS_PER_CHECKPOINT: Final = 3
_REPEATED_MARKERS: Final = 0.1
_LATE_SECONDS_MAX: Final = 4.0
_WRITER_PAUSE_SECONDS_MAX: Final = 0.7
MODULE: Final = "tests.simulation.brokers.transactions"
FAULT_SECONDS: Final = 15.0


class IgnoredAnswer:
    """Takes the answer to a repeated request."""

    def failed(self) -> None:
        pass

    def answered(self, codes: Sequence[ErrorCode]) -> None:
        pass


class TransactionSimulation(Simulation):
    settings = TRANSACTION_SETTINGS
    module = MODULE

    def __init__(self, seed: int, fault_seconds: float) -> None:
        super().__init__(seed, fault_seconds)
        self.recorder = Recorder()
        self.processes: list[Copier] = []
        self.copiers: dict[int, Copier] = {}
        for writer in self.writers:
            writer.pause_s_max = _WRITER_PAUSE_SECONDS_MAX
        for node in self.nodes:
            node.opened = self._opened
        self._marker_dice = random.Random(f"markers {seed}")
        first = self.dice.choice((0, 2))
        self._versions = {one: (first + 2 * one) % 4 for one in range(PARTITIONS)}
        self.committed_readers = [
            self._new_reader(f"committed{one}", one) for one in range(PARTITIONS)
        ]
        self.clients = (*self.clients, *self.committed_readers)
        self.hosts = [*self.hosts, *(one.host for one in self.committed_readers)]

    def _new_reader(self, name: str, partition: int) -> CommittedReader:
        return CommittedReader(
            name, partition, self.seed, self.network, self.trace.note, NODES, self.recorder
        )

    async def run(self) -> float:
        """Play it; returns the simulated seconds. Coordinators load a few records at a time."""
        with patch.object(shard_runtime, "_RECORDS_PER_CHECKPOINT", _RECORDS_PER_CHECKPOINT):
            return await super().run()

    async def _create_topics(self) -> None:
        await super()._create_topics()
        await self.admin.create_topic(OUTPUT)
        for partition in range(PARTITIONS):
            self._start_copier(partition)

    def _start_copier(self, partition: int) -> None:
        copier = Copier(
            partition,
            len(self.processes),
            self._versions[partition],
            self.seed,
            self.network,
            self.trace.note,
            NODES,
            self._nursery,
            self.recorder,
        )
        self.trace.note(f"{copier.host} begins (version {self._versions[partition]})")
        self.copiers[partition] = copier
        self.processes.append(copier)
        self.hosts = [*self.hosts, copier.host]
        self._nursery.start_soon(copier.run)

    def _opened(self, broker: Broker) -> None:
        self.observer.opened(broker)
        self._repeat_markers(broker)

    def _repeat_markers(self, broker: Broker) -> None:
        """Let some markers come a second time, when everything may be over.

        Only those of transactions that end their epoch: before KIP-890 nothing protects from it.
        """
        dice, markers = self._marker_dice, broker.transactions.markers
        ask = markers.ask

        async def ask_late(leader: int, marker: Marker, places: Sequence[TopicPartition]) -> None:
            await pass_time(dice.uniform(0.0, _LATE_SECONDS_MAX))
            ask(leader, IgnoredAnswer(), marker, places)

        def ask_twice(
            leader: int, question: Asker, marker: Marker, places: Sequence[TopicPartition]
        ) -> None:
            if marker.transaction_version >= 2 and dice.random() < _REPEATED_MARKERS:
                broker.transactions.runtime.nursery.start_soon(ask_late, leader, marker, places)
            ask(leader, question, marker, places)

        markers.ask = ask_twice  # type: ignore[method-assign]  # an unreliable network

    # --- what goes wrong -----------------------------------------------------------------------

    async def _go_wrong(self) -> None:
        self._revive()
        dice = self.dice
        if dice.random() >= _FAULTS_OF_CLIENTS:
            await super()._go_wrong()
            return
        kind = dice.choice(("crash of a copier", "zombie", "clock"))
        partition = dice.randrange(PARTITIONS)
        if kind == "clock":
            node = dice.choice(self.nodes)
            node.clock.jump_ms = dice.choice(_JUMPS_MS)
            self.trace.note(f"the clock of {node.host} jumps to {node.clock.jump_ms} ms")
        else:
            if kind != "zombie":
                self.trace.note(f"{self.copiers[partition].host} crashes")
                self.copiers[partition].die()
            self._start_copier(partition)
        self.faults[kind] += 1

    def _revive(self) -> None:
        for partition, copier in self.copiers.items():
            if not copier.is_alive:
                self._start_copier(partition)

    # --- the end -------------------------------------------------------------------------------

    async def _heal(self) -> None:
        for copier in self.processes:
            if self.copiers[copier.partition] is not copier:
                copier.die()
        await super()._heal()
        await self._until("everything is copied", self._is_all_copied)
        for copier in self.processes:
            copier.is_done = True
        await self._until("no copier runs", lambda: not any(map(_is_alive, self.processes)))
        await self._until("no transaction is open", self._is_all_stable)
        for reader in self.committed_readers:
            reader.is_done = True
        await self._read_everything()

    def _is_all_copied(self) -> bool:
        self._revive()
        return all(
            self.copiers[one.partition].position > one.acknowledged[-1][0] for one in self.writers
        )

    def _is_all_stable(self) -> bool:
        return all(
            log.last_stable_offset == log.log_end_offset
            for name, logs in self.machines.logs()
            if not name.startswith(TRANSACTIONS_TOPIC)
            for log in logs
        )

    async def _read_everything(self) -> None:
        readers = [self._new_reader(f"last{one}", one) for one in range(PARTITIONS)]
        for reader in readers:
            self.recorder.note(
                Assign(reader.host, frozenset({(OUTPUT, reader.partition)}), is_seeking=True)
            )
            self._nursery.start_soon(reader.run)
        await self._until(
            "the last readers are through",
            lambda: all(
                one.position
                == self.nodes[0].broker.partitions[OUTPUT, one.partition].log.log_end_offset
                for one in readers
            ),
        )
        for reader in readers:
            reader.is_done = True
        self._check_exactly_once([value for one in readers for value in one.values])

    def _check_exactly_once(self, values: list[bytes]) -> None:
        found = Counter(value.rsplit(b"/", 1)[0].decode() for value in values)
        wanted = [
            f"{writer.partition}/{offset}"
            for writer in self.writers
            for offset, _ in writer.acknowledged
        ]
        wrong = {one: found[one] for one in wanted if found[one] != 1}
        if wrong:
            raise InvariantViolated("exactly once", f"(record: copies) {wrong}")
        if len(found) != len(wanted):
            raise InvariantViolated(
                "exactly once", f"never written: {set(found).difference(wanted)}"
            )

    def _compared(self) -> Iterable[tuple[str, list[Log]]]:
        # Each replica compacts for itself.
        return (one for one in self.machines.logs() if not one[0].startswith("__"))

    def _judge(self) -> None:
        report = check_history(self.recorder.history())
        if not report.is_good:
            raise InvariantViolated("history", str(report))
        super()._judge()


def _is_alive(copier: Copier) -> bool:
    return copier.is_alive


def run_seed(seed: int, fault_seconds: float = FAULT_SECONDS) -> Outcome:
    """Play a seed of transactions.

    Raises:
        SimulationFailed: a promise was broken.
    """
    simulation = TransactionSimulation(seed, fault_seconds)
    simulated_s = play(simulation)
    counts = Counter(
        copied=sum(len(one.acknowledged) for one in simulation.writers),
        committed=sum(one.committed for one in simulation.processes),
        aborted=sum(one.aborted for one in simulation.processes),
    )
    trace = simulation.trace
    return Outcome(seed, simulated_s, counts, trace.text, simulation.faults, trace.fingerprint)


if __name__ == "__main__":
    sys.exit(
        run_seeds(
            MODULE,
            lambda seed, options: run_seed(seed, options.seconds),
            seeds=20,
            add_options=lambda parser: parser.add_argument(
                "--seconds", type=float, default=FAULT_SECONDS, help="how long things go wrong"
            ),
        )
    )
