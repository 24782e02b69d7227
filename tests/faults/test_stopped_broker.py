"""SIGTERM in the middle of anything: exit code 0, and the next broker has everything."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.records import encode_batch
from tests.faults.link import LATEST, Link
from tests.interop.brokers import InteropBroker

STOP_PATIENCE_S = 60
"""Against a hang; a stop has five seconds, which is measured where time is measured."""

MANY = 2000


@pytest.fixture
def broker(tmp_path: Path) -> Generator[InteropBroker]:
    broker = InteropBroker(tmp_path, {"log.cleaner.backoff.ms": "10"})
    with broker:
        yield broker


def creation(name: str, partitions: int) -> CreateTopicsRequest:
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[],
    )
    return CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)


def fetch(partition: int, offset: int) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=50_000_000)
    return FetchRequest(
        max_wait_ms=3_600_000,
        min_bytes=1,
        max_bytes=50_000_000,
        topics=[FetchTopic(topic="t", partitions=[asked])],
    )


def while_many_logs_are_made(broker: InteropBroker, links: list[Link]) -> None:
    links[0].send(creation("many", MANY), 7)
    links[1].topic("many")


def while_many_logs_are_deleted(broker: InteropBroker, links: list[Link]) -> None:
    links[0].create_topic("many", MANY, {})
    links[0].send(DeleteTopicsRequest(topic_names=["many"], timeout_ms=10_000), 5)
    links[1].topic("many")


def while_clients_wait_and_do_not_read(broker: InteropBroker, links: list[Link]) -> None:
    for link in links[:4]:
        link.send(fetch(1, 0), 11)  # nothing there: waits
    for _ in range(20):
        links[4].produce("t", 0, batch(b"x" * 900_000))
    for link in links[5:8]:
        for _ in range(5):
            link.send(fetch(0, 1), 11)  # too much for the socket's buffer
    links[8].socket.sendall(b"\0\0\1\0\0\0")  # half a frame


def while_it_compacts(broker: InteropBroker, links: list[Link]) -> None:
    links[0].create_topic(
        "c", 1, {"cleanup_policy": "compact", "segment_bytes": 2_000_000, "flush_ms": 1}
    )
    for number in range(60):
        records = [(b"%d" % key, b"v" * 500, (), 1) for key in range(100)]
        answer = links[0].produce("c", 0, bytes(encode_batch(records)))
        assert answer.base_offset == 100 * number


@pytest.mark.parametrize(
    "in_the_middle",
    [
        while_many_logs_are_made,
        while_many_logs_are_deleted,
        while_clients_wait_and_do_not_read,
        while_it_compacts,
    ],
    ids=lambda function: function.__name__.replace("_", " "),
)
@pytest.mark.parametrize("signals", [1, 3])
def test_a_signal_in_the_middle_ends_it_well(
    broker: InteropBroker,
    in_the_middle: Callable[[InteropBroker, list[Link]], None],
    signals: int,
) -> None:
    with ExitStack() as stack:
        links = [stack.enter_context(Link(broker.host_and_port)) for _ in range(9)]
        links[0].create_topic("t", 2, {})
        acked = links[0].produce("t", 0, batch(b"acked")).base_offset
        in_the_middle(broker, links)
        for _ in range(signals - 1):
            broker.process.send_signal(signal.SIGTERM)
        assert broker.stop() == 0
    broker.start()
    with Link(broker.host_and_port) as link:
        assert link.offset_at("t", 0, LATEST) > acked


def batch(value: bytes) -> bytes:
    return bytes(encode_batch([(b"k", value, (), 1)]))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it_well(
    broker: InteropBroker, number: signal.Signals
) -> None:
    with Link(broker.host_and_port) as link:
        link.create_topic("t", MANY, {})
        for partition in range(0, MANY, 10):
            link.produce("t", partition, batch(b"acked"))
    broker.kill()
    # A foreign file in the first partition makes it say that it has begun to open them.
    first = min(path for path in broker.data_dir.iterdir() if path.is_dir())
    (first / "foreign.log").touch()
    command = [sys.executable, "-m", "minikafka.cli.main", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--data-dir", str(broker.data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as starting:
        assert starting.stderr is not None
        assert b"foreign.log" in starting.stderr.readline()
        starting.send_signal(number)
        output, log = starting.communicate(timeout=STOP_PATIENCE_S)
        assert starting.returncode == 0, log
        assert output == b""
        assert b"stopped before it could serve" in log
    broker.start()
    with Link(broker.host_and_port) as link:
        assert link.offset_at("t", MANY - 10, LATEST) == 1
