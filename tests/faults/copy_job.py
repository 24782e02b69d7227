"""A topic is copied into another one in transactions, while clients and brokers are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka

from minikafka.testing import Cluster
from minikafka_client import NewTopic
from minikafka_client.sync import AdminClient, Producer
from tests.faults.cluster_nemesis import Nemesis
from tests.faults.copy_workers import INPUT, OUTPUT, transactional_id_of
from tests.kit.waiting import Progress, work_until

PARTITIONS: Final = 4
WORKERS: Final = 2
_REPLICAS = 3
_PATIENCE_S = 60
_POLL_S = 0.2
_DOWN_S = 1.0
_VICTIMS = ("worker", "broker", "broker for a while", "worker")


class Verdict(NamedTuple):
    """What a reader of committed records finds in the copy, after everything.

    Attributes:
        records: that should be there.
        lost, doubled, out_of_order, strange: how many are not as they should be.
        kills: of clients and brokers.
        gave_up: workers that ended by themselves; another one continued.
        seconds: from the first worker's start until everything was seen.
    """

    records: int
    lost: int
    doubled: int
    out_of_order: int
    strange: int
    kills: int
    gave_up: int
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether the copy is one."""
        return not (self.lost or self.doubled or self.out_of_order or self.strange)


class CopyJob:
    """Workers in processes of their own, and a thread that watches the copy grow.

    Args:
        cluster: where.
        kind: of the workers; see `copy_workers`.
        records: how many there are to copy.
        directory: for what the workers say.

    Attributes:
        progress: announced when the copy has grown.
        is_complete: set when everything is there.
        seen: how many records were seen.
        gave_up: how often a worker ended by itself.
    """

    def __init__(self, cluster: Cluster, kind: str, records: int, directory: Path) -> None:
        self.cluster = cluster
        self.kind = kind
        self.records = records
        self.progress = Progress()
        self.is_complete = threading.Event()
        self.seen = 0
        self.gave_up = 0
        self.kills = 0
        self._directory = directory
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def fill(self) -> None:
        """Create the topics, and the records to copy."""
        with AdminClient(self.cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, _REPLICAS) for name in (INPUT, OUTPUT)])
        records, self.records = self.records, 0
        self.add(records)

    def add(self, records: int) -> None:
        """More to be copied: numbers, dealt out to the partitions."""
        first, self.records = self.records, self.records + records
        with Producer(self.cluster.bootstrap) as producer:
            for number in range(first, self.records):
                producer.send(INPUT, b"%d" % number, partition=number % PARTITIONS)

    # --- workers ---

    def start(self) -> None:
        """Let workers copy, and watch."""
        self._workers = [self._new_worker(number) for number in range(WORKERS)]
        self._watcher.start()

    def _new_worker(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.copy_workers", self.kind]
        with (self._directory / f"worker-{number}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, self.cluster.bootstrap, str(number)], stdout=log, stderr=log
            )

    def kill_worker(self, number: int) -> None:
        """SIGKILL; the watcher starts another one."""
        self._workers[number].kill()
        self.kills += 1

    def pause_worker(self, number: int) -> None:
        """SIGSTOP: it does nothing, and does not notice that when it wakes up."""
        self._workers[number].send_signal(signal.SIGSTOP)

    def resume_worker(self, number: int) -> None:
        self._workers[number].send_signal(signal.SIGCONT)

    def kill_broker(self, node_id: int) -> None:
        self.cluster.kill(node_id)
        self.kills += 1

    def _revive(self) -> None:
        for number, worker in enumerate(self._workers):
            code = worker.poll()
            if code is not None:
                self.gave_up += code != -signal.SIGKILL
                self._workers[number] = self._new_worker(number)

    def end(self) -> None:
        self._over.set()
        if self._watcher.is_alive():
            self._watcher.join(_PATIENCE_S)
        for worker in self._workers:
            worker.kill()
            worker.wait()

    # --- watching ---

    def _watch(self) -> None:
        try:
            self._read_along()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._failure = error
            self.progress.announce()

    def _read_along(self) -> None:
        consumer: Any = confluent_kafka.Consumer(_reading(self.cluster.bootstrap))
        consumer.assign([confluent_kafka.TopicPartition(OUTPUT, p, 0) for p in range(PARTITIONS)])
        expected = list(range(PARTITIONS))
        while not self._over.is_set():
            for message in consumer.consume(1_000, _POLL_S):
                if message.error() is not None:
                    continue
                partition, number = message.partition(), int(message.value())
                assert number == expected[partition], (
                    f"partition {partition}: {number} at offset {message.offset()} instead of "
                    f"{expected[partition]}"
                )
                expected[partition] += PARTITIONS
                self.seen += 1
            self.progress.announce()
            if self.seen == self.records:
                self.is_complete.set()
            self._revive()
        consumer.close()

    def wait_until_seen(self, records: int) -> None:
        """Wait until so many records are copied.

        Raises:
            AssertionError: nothing was copied for a minute, or what was copied is wrong.
        """
        while self.seen < records:
            self._wait_for_more_than(self.seen)
        self.raise_failure()

    def _wait_for_more_than(self, records: int) -> None:
        self.progress.wait_until(
            lambda: self.seen > records or self._failure is not None,
            what=f"more than {records} of {self.records} records in the copy",
        )
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the error that the watcher has found."""
        if self._failure is not None:
            raise self._failure

    # --- the end ---

    def finish(self, nemesis: Nemesis, seconds: float) -> Verdict:
        """Heal, end the open transactions of dead workers, and read the copy from the beginning."""
        self.end()
        nemesis.wait_until_healthy()
        for number in range(WORKERS):
            with Producer(self.cluster.bootstrap, transactional_id=transactional_id_of(number)):
                pass
        return self._verdict(self._read_again(), seconds)

    def _read_again(self) -> list[list[int]]:
        consumer: Any = confluent_kafka.Consumer(_reading(self.cluster.bootstrap))
        where = [confluent_kafka.TopicPartition(OUTPUT, p, 0) for p in range(PARTITIONS)]
        ends = [consumer.get_watermark_offsets(each, _PATIENCE_S)[1] for each in where]
        consumer.assign(where)
        found: list[list[int]] = [[] for _ in range(PARTITIONS)]

        def read() -> None:
            for message in consumer.consume(1_000, _POLL_S):
                if message.error() is None:
                    partition: int = message.partition()
                    found[partition].append(int(message.value()))

        work_until(
            lambda: all(
                each.offset >= end for each, end in zip(consumer.position(where), ends, strict=True)
            ),
            read,
            what=f"the end of the copy, {ends}",
            show=lambda: consumer.position(where),
        )
        consumer.close()
        return found

    def _verdict(self, found: list[list[int]], seconds: float) -> Verdict:
        everything = [number for numbers in found for number in numbers]
        different = set(everything)
        return Verdict(
            records=self.records,
            lost=len(set(range(self.records)) - different),
            doubled=len(everything) - len(different),
            out_of_order=sum(numbers != sorted(numbers) for numbers in found),
            strange=sum(
                number % PARTITIONS != partition or number >= self.records
                for partition, numbers in enumerate(found)
                for number in numbers
            ),
            kills=self.kills,
            gave_up=self.gave_up,
            seconds=seconds,
        )


def _reading(bootstrap: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "watchers",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "socket.timeout.ms": 3_000,
        "topic.metadata.refresh.interval.ms": 2_000,
        "log_level": 0,
    }


@contextmanager
def copying(cluster: Cluster, kind: str, records: int, directory: Path) -> Generator[CopyJob]:
    """A copy job that has begun, for a block."""
    job = CopyJob(cluster, kind, records, directory)
    job.fill()
    try:
        job.start()
        yield job
    except BaseException as error:
        for number in range(WORKERS):
            log = (directory / f"worker-{number}.log").read_text(errors="replace")
            error.add_note(f"worker {number} said:\n{log[-2_000:]}")
        raise
    finally:
        job.end()


def kill_by_progress(job: CopyJob, nemesis: Nemesis, kills: int) -> None:
    """Kill a process each time that another part of the records is copied."""
    victims = [_VICTIMS[number % len(_VICTIMS)] for number in range(kills)]
    nemesis.dice.shuffle(victims)
    for number, kind in enumerate(victims, 1):
        job.wait_until_seen(number * job.records // (kills + 1))
        match kind:
            case "worker":
                job.kill_worker(nemesis.dice.randrange(WORKERS))
            case "broker":
                victim = nemesis.dice.randint(1, 3)
                job.kill_broker(victim)
                job.cluster.start(victim)
            case _:
                nemesis.wait_until_healthy()
                victim = nemesis.dice.randint(1, 3)
                job.kill_broker(victim)
                job.wait_until_seen(min(job.seen + 1, job.records))
                job.cluster.start(victim)


def kill_by_the_clock(job: CopyJob, nemesis: Nemesis, interval_s: float) -> None:
    """Kill a process every few seconds until everything is copied."""
    while not job.is_complete.wait(interval_s):
        job.raise_failure()
        if nemesis.dice.random() < 0.5:
            job.kill_worker(nemesis.dice.randrange(WORKERS))
        else:
            victim = nemesis.dice.randint(1, 3)
            job.kill_broker(victim)
            job.is_complete.wait(_DOWN_S)
            job.cluster.start(victim)
