"""A distributed worker of Kafka Connect on our broker: from a file to a topic and back.

The source stores its offsets in the transaction of its records (KIP-618), so the committed topic
has every line once although the worker was killed. A sink cannot do that with a file: it repeats
what it wrote after its last commit of offsets, and only that.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from minikafka.testing.places import Address
from minikafka_client import TopicPartition
from minikafka_client.sync import Consumer
from tests.kit.live import JudgedBroker
from tests.kit.waiting import look_until, work_until
from tests.kit.wire import Wire
from tests.peers.java_programs import JavaProgram, write_properties

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

LINES = 15_350
BATCH = 500
"""Of the source. It forgets the end of a file if that is in its buffer when a batch is full."""
NOT_YET = (404, 409, 500, 503)
"""It starts, or its group is rebalancing."""
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def broker(jars: object, tmp_path: Path) -> Generator[JudgedBroker]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with JudgedBroker(tmp_path / "broker", settings) as running:
        yield running
        running.check_log()


class Worker(JavaProgram):
    """A worker of Kafka Connect, and its REST API."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._held = Address("127.0.0.1:0")  # also while it is down
        self._address = f"http://{self._held}"
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "listeners": self._address,
            "plugin.discovery": "service_load",
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 0,
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
            "consumer.isolation.level": "read_committed",
            "consumer.session.timeout.ms": 3000,
            "consumer.heartbeat.interval.ms": 500,
            "key.converter": CONVERTER,
            "value.converter": CONVERTER,
        }
        for what in ("config", "offset", "status"):
            settings[f"{what}.storage.topic"] = f"connect-{what}"
            settings[f"{what}.storage.replication.factor"] = 1
        properties = write_properties(folder / "worker.properties", settings)
        main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(folder / "worker.log", main_class, properties)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._held.release()

    def ask(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        """GET, or PUT with a body; the JSON of the answer, None while it cannot answer."""
        self.check_runs()
        request = urllib.request.Request(
            self._address + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in NOT_YET:
                raise AssertionError(error.read().decode()) from error
            return None
        except (urllib.error.URLError, ConnectionError):
            return None

    def configure(self, name: str, **config: object) -> None:
        """Create a connector as soon as the worker accepts that."""
        path, body = f"/connectors/{name}/config", {name: str(at) for name, at in config.items()}
        look_until(
            lambda: (
                self.ask(path, {key.replace("_", "."): at for key, at in body.items()}) is not None
            ),
            f"connector {name}",
            show=self.log_end,
        )

    def task_state(self, name: str) -> str:
        """Of the connector's only task: RUNNING if all is well; empty if nobody knows."""
        tasks = (self.ask(f"/connectors/{name}/status") or {}).get("tasks", [])
        return tasks[0]["state"] if tasks else ""


class Topic:
    """What is committed in the topic."""

    def __init__(self, consumer: Consumer, worker: Worker) -> None:
        self._consumer, self._worker = consumer, worker
        self.lines: list[str] = []

    def read(self) -> None:
        self._worker.check_runs()
        self.lines += [
            record.value.decode()
            for record in self._consumer.poll(timeout_ms=100)
            if record.value is not None
        ]

    def read_until(self, count: int) -> None:
        work_until(
            lambda: len(self.lines) >= count,
            self.read,
            what=f"{count} lines",
            show=lambda: f"{len(self.lines)}\n{self._worker.log_end()}",
        )


def lines_of(first: int, count: int) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


def test_every_line_of_a_file_is_in_the_topic_once_although_the_worker_is_killed(
    broker: JudgedBroker, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    lines = lines_of(0, LINES)
    source.write_text("".join(f"{line}\n" for line in lines))
    with Wire(broker.bootstrap) as wire:
        wire.create_topic("lines", 1, {})
    with (
        Worker(tmp_path, broker.bootstrap) as worker,
        Consumer(
            broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        consumer.assign([TopicPartition("lines", 0)])
        topic = Topic(consumer, worker)
        worker.configure(
            "sink", connector_class="FileStreamSink", topics="lines", file=sink, tasks_max=1
        )
        worker.configure(
            "source",
            connector_class="FileStreamSource",
            topic="lines",
            file=source,
            batch_size=BATCH,
        )
        topic.read_until(BATCH)
        worker.kill()
        more = lines_of(LINES, 50)
        with source.open("a") as file:
            file.writelines(f"{line}\n" for line in more)
        worker.start()
        topic.read_until(LINES + len(more))
        lines += more
        look_until(
            lambda: sink.exists() and set(sink.read_text().splitlines()) >= set(lines),
            "all lines in the sink's file",
            show=worker.log_end,
        )
        assert [worker.task_state(name) for name in ("source", "sink")] == ["RUNNING"] * 2
        topic.read()
    assert topic.lines == lines
    assert list(dict.fromkeys(sink.read_text().splitlines())) == lines
