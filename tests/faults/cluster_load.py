"""Clients at work on a cluster that breaks, and the history of what they sent and read.

Every client is a thread. It writes down what it does in one recorder; at the end one more reader
reads everything, and the history checker judges the whole.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import trio

from minikafka.testing.history.anomalies import Anomaly
from minikafka.testing.history.checker import Report, check_history
from minikafka.testing.history.operations import Assign, Key, Value
from minikafka.testing.history.recording import Recorder, save_history
from minikafka_client import Consumer, ConsumerRecord, TopicPartition
from tests.kit.waiting import Progress

LAST_READER = "last reader"
_JOIN_SECONDS_MAX = 120


class Client(threading.Thread, ABC):
    """One client of a load, in a thread of its own.

    Args:
        load: what it belongs to.
        name: its process in the history.
    """

    def __init__(self, load: ClusterLoad, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.load = load

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.load.report(error)

    @abstractmethod
    def work(self) -> None:
        """Work until `load.over` is set."""


class Writer(Client):
    """A client that sends to every partition; each record has its sender and its number.

    Args:
        load: what it belongs to.
        name: its process in the history.
        topic: where it writes.
        acks: "all", or 1: then an acknowledgement is no promise, and not recorded as one.
        is_idempotent: whether duplicates and reordering are excluded.
    """

    def __init__(
        self,
        load: ClusterLoad,
        name: str,
        topic: str,
        *,
        acks: str = "all",
        is_idempotent: bool = True,
    ) -> None:
        super().__init__(load, name)
        self.topic = topic
        self.acks = acks
        self.is_idempotent = is_idempotent
        self.acked: Counter[int] = Counter()
        self.failed: list[str] = []
        self._count = 0

    def next_value(self) -> bytes:
        """A value that no other client sends."""
        self._count += 1
        padding = "x" * (self._count * 7919 % 300)
        return f"{self.name}:{self._count}:{padding}".encode()

    def acknowledged(self, partition: int) -> None:
        """Count one, and wake the thread that waits for it."""
        self.acked[partition] += 1
        self.load.progress.announce()


class Reader(Client):
    """A client that reads every partition from its beginning."""

    read = 0

    def saw(self, records: dict[Key, list[tuple[int, Value]]]) -> None:
        self.load.recorder.poll(self.name, records)
        self.read += sum(map(len, records.values()))
        self.load.progress.announce()


class ClusterLoad:
    """All clients of one campaign.

    Args:
        bootstrap: where the cluster is.
        topics: each topic and how many partitions it has.

    Attributes:
        recorder: gets everything that happens.
        progress: announced after every acknowledgement and every poll.
        over: set when clients should finish what they have begun.
    """

    def __init__(self, bootstrap: str, topics: dict[str, int]) -> None:
        self.bootstrap = bootstrap
        self.topics = topics
        self.recorder = Recorder()
        self.progress = Progress()
        self.over = threading.Event()
        self._clients: list[Client] = []
        self._failures: list[BaseException] = []

    @property
    def writers(self) -> list[Writer]:
        return [client for client in self._clients if isinstance(client, Writer)]

    def report(self, failure: BaseException) -> None:
        """A client could not go on."""
        self._failures.append(failure)
        self.progress.announce()

    def start(self, clients: Sequence[Client]) -> None:
        self._clients += clients
        for client in clients:
            if isinstance(client, Reader):
                self.recorder.note(Assign(client.name, frozenset(self.partitions)))
            client.start()

    @property
    def partitions(self) -> list[Key]:
        """All of all topics."""
        return [(topic, number) for topic, count in self.topics.items() for number in range(count)]

    def raise_failures(self) -> None:
        """Raise the exception that ended a client."""
        if self._failures:
            raise self._failures[0]

    def go_on(
        self,
        records: int,
        *,
        partitions: Collection[Key] | None = None,
        kind: type[Writer] = Writer,
    ) -> None:
        """Wait until every writer has had so many more acknowledgements from each partition.

        Args:
            records: how many more.
            partitions: only these must progress.
            kind: only these writers must.
        """
        chosen = set(self.partitions if partitions is None else partitions)
        before = {
            (writer.name, partition): writer.acked[partition]
            for writer in self.writers
            if isinstance(writer, kind)
            for partition in range(self.topics[writer.topic])
            if (writer.topic, partition) in chosen
        }
        writers = {writer.name: writer for writer in self.writers}

        def missing() -> list[tuple[str, int]]:
            return [
                (name, partition)
                for (name, partition), count in before.items()
                if writers[name].acked[partition] < count + records
            ]

        self.progress.wait_until(
            lambda: bool(self._failures) or not missing(),
            what=f"{records} more acknowledgements from each partition",
            show=lambda: missing(),
        )
        self.raise_failures()

    def finish(self) -> None:
        """Let every client finish what it has begun."""
        self.over.set()
        self.progress.announce()
        for client in self._clients:
            client.join(_JOIN_SECONDS_MAX)
            assert not client.is_alive(), f"{client.name} hangs"
        self.raise_failures()

    def judge(self, directory: Path, *, allowed: Collection[Anomaly] = ()) -> Report:
        """Read everything once more and judge the history; it is saved when it is not good.

        Args:
            directory: where it is saved.
            allowed: what this load may show.
        """
        trio.run(self._read_everything)
        history = self.recorder.history()
        report = check_history(history, allowed=allowed)
        if not report.is_good:
            save_history(directory / "history.jsonl", history)
        return report

    async def _read_everything(self) -> None:
        keys = [TopicPartition(*key) for key in self.partitions]
        self.recorder.note(Assign(LAST_READER, frozenset(self.partitions), is_seeking=True))
        with trio.fail_after(_JOIN_SECONDS_MAX):
            async with Consumer(self.bootstrap, auto_offset_reset="none") as consumer:
                await consumer.assign(keys)
                await consumer.seek_to_beginning()
                ends = await consumer.end_offsets(keys)
                waiting = {key for key in keys if ends[key] > 0}
                while waiting:
                    self.recorder.poll(LAST_READER, by_partition(await consumer.poll()))
                    done = [key for key in waiting if await consumer.position(key) >= ends[key]]
                    waiting.difference_update(done)


def by_partition(records: Sequence[ConsumerRecord]) -> dict[Key, list[tuple[int, Value]]]:
    """Offsets and values of records, for the history."""
    found: dict[Key, list[tuple[int, Value]]] = {}
    for record in records:
        assert record.value is not None
        key = (record.topic, record.partition)
        found.setdefault(key, []).append((record.offset, record.value))
    return found
