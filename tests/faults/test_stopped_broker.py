"""SIGTERM at any time: exit code 0, and the next broker has everything."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from minikafka.protocol.messages import delete_topics
from minikafka.protocol.messages import fetch as fetch_api
from minikafka.protocol.records import encode_batch
from tests.kit.live import JudgedBroker
from tests.kit.waiting import look_until
from tests.kit.wire import LATEST, Wire, creatable, create_request, fetch_of, one_batch

MANY = 2000


@pytest.fixture
def broker(tmp_path: Path) -> Generator[JudgedBroker]:
    with JudgedBroker(tmp_path, {"log.cleaner.backoff.ms": "10"}) as broker:
        yield broker


def fetch(partition: int, offset: int) -> fetch_api.Request:
    return fetch_of("t", {partition: offset}, max_wait_ms=3_600_000, max_bytes=50_000_000)


def while_many_logs_are_made(broker: JudgedBroker, links: list[Wire]) -> None:
    links[0].send(create_request(creatable("many", MANY)), 7)
    links[1].topic("many")


def while_many_logs_are_deleted(broker: JudgedBroker, links: list[Wire]) -> None:
    links[0].create_topic("many", MANY, {})
    links[0].send(delete_topics.Request(topic_names=["many"], timeout_ms=10_000), 5)
    links[1].topic("many")


def while_clients_wait_and_do_not_read(broker: JudgedBroker, links: list[Wire]) -> None:
    for link in links[:4]:
        link.send(fetch(1, 0), 11)  # nothing there: waits
    for _ in range(20):
        links[4].produce("t", 0, one_batch(b"x" * 900_000))
    for link in links[5:8]:
        for _ in range(5):
            link.send(fetch(0, 1), 11)  # too much for the socket's buffer
    links[8].socket.sendall(b"\0\0\1\0\0\0")  # half a frame


def while_it_compacts(broker: JudgedBroker, links: list[Wire]) -> None:
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
def test_a_signal_under_load_stops_cleanly(
    broker: JudgedBroker, in_the_middle: Callable[[JudgedBroker, list[Wire]], None], signals: int
) -> None:
    with ExitStack() as stack:
        links = [stack.enter_context(Wire(broker.bootstrap)) for _ in range(9)]
        links[0].create_topic("t", 2, {})
        acked = links[0].produce("t", 0, one_batch(b"acked")).base_offset
        in_the_middle(broker, links)
        for _ in range(signals - 1):
            broker.process.send_signal(signal.SIGTERM)
        assert broker.stop() == 0
    broker.start()
    with Wire(broker.bootstrap) as link:
        assert link.offset_at("t", 0, LATEST) > acked


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_stops_cleanly(
    broker: JudgedBroker, number: signal.Signals
) -> None:
    with Wire(broker.bootstrap) as link:
        link.create_topic("t", MANY, {})
        for partition in range(0, MANY, 10):
            link.produce("t", partition, one_batch(b"acked"))
    broker.kill()
    # An unknown file in the first partition makes it log that it has begun to open them.
    first = min(path for path in broker.data_dir.iterdir() if path.is_dir())
    (first / "foreign.log").touch()
    broker.launch()
    look_until(lambda: "foreign.log" in broker.log(), what="its start")
    broker.process.send_signal(number)
    assert os.read(broker.process.fileno(), 1) == b"", "it says that it serves"
    assert broker.process.wait() == 0
    assert "stopped before it could serve" in broker.log()
    broker.start()
    with Wire(broker.bootstrap) as link:
        assert link.offset_at("t", MANY - 10, LATEST) == 1
