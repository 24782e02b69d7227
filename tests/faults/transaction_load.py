"""Clients with transactions at work on a cluster that breaks, and two histories of it.

In one of them an operation is a transaction, and readers see what is committed. In the other one it
is a record, and readers see everything that is stored: an aborted record is no lie there, but it is
in one place, once, and in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import trio

from minikafka.testing.history.checker import Report, check_history
from minikafka.testing.history.operations import Assign, Key, Poll, Send, Value
from minikafka.testing.history.recording import Recorded, Recorder, save_history
from minikafka_client import Consumer, TopicPartition
from tests.faults.cluster_clients import ConfluentReader, IsolationLevel, OurReader
from tests.faults.cluster_load import LAST_READER, Client, ClusterLoad, Writer, by_partition

_PATIENCE_S = 120


class TransactionalLoad(ClusterLoad):
    """The load and both histories.

    Attributes:
        stored: the history of what is stored, committed or not.
    """

    def __init__(self, bootstrap: str, topics: dict[str, int]) -> None:
        super().__init__(bootstrap, topics)
        self.stored = Recorder()

    def judge_both(self, directory: Path) -> tuple[Report, Report]:
        """Read everything once more and judge both histories; those that are not good are saved.

        Args:
            directory: where they are saved.
        """
        reports: list[Report] = []
        histories: list[tuple[Recorder, IsolationLevel]] = [
            (self.recorder, "read_committed"),
            (self.stored, "read_uncommitted"),
        ]
        for recorder, isolation_level in histories:
            trio.run(self._read_all, recorder, isolation_level)
            history = recorder.history()
            report = check_history(history)
            if not report.is_good:
                save_history(directory / f"{isolation_level}.jsonl", history)
            reports.append(report)
        return reports[0], reports[1]

    async def _read_all(self, recorder: Recorder, isolation_level: IsolationLevel) -> None:
        """Up to the high watermarks: nothing may be left open."""
        keys = [TopicPartition(*key) for key in self.partitions]
        recorder.note(Assign(LAST_READER, frozenset(self.partitions), is_seeking=True))
        with trio.fail_after(_PATIENCE_S):
            async with (
                Consumer(self.bootstrap) as careless,
                Consumer(
                    self.bootstrap, auto_offset_reset="none", isolation_level=isolation_level
                ) as consumer,
            ):
                await consumer.assign(keys)
                await consumer.seek_to_beginning()
                ends = await careless.end_offsets(keys)
                waiting = {key for key in keys if ends[key] > 0}
                while waiting:
                    records = await consumer.poll(timeout_ms=100)
                    if records:
                        recorder.poll(LAST_READER, by_partition(records))
                    done = [key for key in waiting if await consumer.position(key) >= ends[key]]
                    waiting.difference_update(done)


class TransactionalWriter(Writer):
    """A client that sends to every partition in each transaction.

    Attributes:
        committed, aborted, unknown: how its transactions ended.
    """

    load: TransactionalLoad
    committed = 0
    aborted = 0
    unknown = 0

    def partitions(self) -> range:
        """Where each transaction writes."""
        return range(self.load.topics[self.topic])


class Attempt:
    """One transaction, in both histories."""

    def __init__(self, writer: TransactionalWriter) -> None:
        self._writer = writer
        self._operation = writer.load.recorder.begin(writer.name)
        self._sends: list[tuple[int, Recorded]] = []

    def send(self, partition: int) -> tuple[bytes, int]:
        """A record is about to be sent; returns its value, and its number in this transaction."""
        value = self._writer.next_value()
        key: Key = (self._writer.topic, partition)
        self._sends.append(
            (len(self._operation.actions), self._writer.load.stored.send(self._name, key, value))
        )
        self._operation.actions.append(Send(key, value))
        return value, len(self._sends) - 1

    @property
    def _name(self) -> str:
        return self._writer.name

    def poll(self, records: dict[Key, list[tuple[int, Value]]]) -> None:
        """Records were read within the transaction."""
        if records:
            self._operation.actions.append(Poll(records))

    def delivered(self, number: int, offset: int) -> None:
        """A record is stored."""
        place, stored = self._sends[number]
        stored.ok(offset)
        send = self._operation.actions[place]
        assert isinstance(send, Send)
        self._operation.actions[place] = send._replace(offset=offset)

    def committed(self) -> None:
        """All of it is to be seen."""
        self._operation.ok()
        self._writer.committed += 1
        for partition in self._writer.partitions():
            self._writer.acknowledged(partition)

    def aborted(self) -> None:
        """None of it is to be seen."""
        self._operation.fail()
        self._writer.aborted += 1

    def unknown(self) -> None:
        """All of it or none."""
        self._operation.info()
        self._writer.unknown += 1


class CommittedReader(OurReader):
    isolation_level = "read_committed"


class StoredReader(OurReader):
    """Our reader of everything."""

    load: TransactionalLoad

    def saw(self, records: dict[Key, list[tuple[int, Value]]]) -> None:
        self.load.stored.poll(self.name, records)


class ConfluentStoredReader(ConfluentReader):
    load: TransactionalLoad
    isolation_level = "read_uncommitted"

    def saw(self, records: dict[Key, list[tuple[int, Value]]]) -> None:
        self.load.stored.poll(self.name, records)


def note_readers(load: TransactionalLoad, clients: Iterable[Client]) -> None:
    """Readers of everything have their places in the other history."""
    for client in clients:
        if isinstance(client, (StoredReader, ConfluentStoredReader)):
            load.stored.note(Assign(client.name, frozenset(load.partitions)))
