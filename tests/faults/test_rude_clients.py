"""Clients that disconnect, never read, or read slowly: memory stays low, others are served."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import encode_request
from minikafka.protocol.messages import fetch as fetch_api
from minikafka.protocol.messages import metadata
from minikafka.protocol.schema import Request
from minikafka.testing.wire import decode_response
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import EARLIEST, Wire, fetch_of, one_batch, records_of

MEGABYTE = 1 << 20
VALUE = b"v" * 500_000
VALUES = 40
GROWTH_MAX_BYTES = 60 * MEGABYTE


@pytest.fixture
def broker(tmp_path: Path) -> Generator[JudgedBroker]:
    settings = {
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": "20",
        "log.segment.delete.delay.ms": "0",
        "log.segment.bytes": str(8 * MEGABYTE),
    }
    with JudgedBroker(tmp_path, settings) as broker, Wire(broker.bootstrap) as link:
        link.create_topic("t", 20, {})
        for number in range(VALUES):
            assert link.produce("t", 0, one_batch(VALUE)).base_offset == number
        for partition in range(1, 20):
            link.produce("t", partition, one_batch(VALUE))
        yield broker
        broker.check_log()


def fetch(*partitions: int, offset: int = 0, max_wait_ms: int = 0) -> fetch_api.Request:
    offsets = dict.fromkeys(partitions, offset)
    return fetch_of("t", offsets, max_wait_ms=max_wait_ms, max_bytes=50 * MEGABYTE)


def frame(request: Request, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "rude"))


def memory_of(broker: JudgedBroker) -> int:
    return int(psutil.Process(broker.process.pid).memory_info().rss)


def check_that_others_are_served(broker: JudgedBroker) -> None:
    with Wire(broker.bootstrap) as link:
        answer = link.produce("t", 19, one_batch(b"polite"))
        assert answer.error_code == ErrorCode.NONE


def test_dropped_connections_leave_nothing_behind(broker: JudgedBroker) -> None:
    dice = random.Random(1)
    openings = [
        b"",
        b"\0",
        b"\0\0\1\0\0\3\0\1",
        frame(fetch(1, offset=1, max_wait_ms=2**31 - 1), 11),
        frame(fetch(*range(20)), 11),
        frame(metadata.Request(topics=None), 9) * 30,
    ]
    process = psutil.Process(broker.process.pid)
    before = process.num_fds()
    for _ in range(1000):
        with Wire(broker.bootstrap) as client:
            client.send_bytes(dice.choice(openings))
            if dice.random() < 0.3:  # a reset instead of an orderly end
                client.socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
    files = 2 * 20  # a log and an index each
    work_until(
        lambda: process.num_fds() <= before + files,
        lambda: check_that_others_are_served(broker),
        what="the connections to be closed",
        show=process.num_fds,
    )


def test_clients_that_never_read_take_little_memory(broker: JudgedBroker) -> None:
    before = memory_of(broker)
    openings = [
        frame(fetch(0), 11),
        frame(fetch(*range(20)), 11) * 20,
        frame(metadata.Request(topics=None), 9) * 1000,
    ]
    with ExitStack() as stack:
        for number in range(60):
            client = stack.enter_context(Wire(broker.bootstrap)).socket
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.send(openings[number % len(openings)])
        for _ in range(20):
            check_that_others_are_served(broker)
        assert memory_of(broker) - before < GROWTH_MAX_BYTES


@pytest.mark.parametrize("ending", ["retention", "deletion"])
def test_a_slow_reader_gets_its_answer_even_if_the_file_is_deleted(
    broker: JudgedBroker, ending: str
) -> None:
    with Wire(broker.bootstrap) as slow, Wire(broker.bootstrap) as link:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.send(fetch(0), 11)
        size = slow.socket.recv(4, socket.MSG_WAITALL)  # the answer is on its way
        segment = broker.data_dir / "t-0" / "00000000000000000000.log"
        if ending == "retention":
            link.delete_records("t", VALUES)
            assert link.offset_at("t", 0, EARLIEST) == VALUES
        else:
            link.delete_topics(["t"])
        work_until(
            lambda: not segment.exists(), lambda: link.topic("t"), what="the segment to be removed"
        )
        content = bytearray()
        while len(content) < int.from_bytes(size, "big"):
            content += slow.socket.recv(MEGABYTE)
        _, answer = decode_response(fetch_api.Response, 11, content)
        records = list(records_of(answer.responses[0].partitions[0]))
        assert [record.offset for record in records] == list(range(len(records)))
        assert {record.value for record in records} == {VALUE}
        assert len(records) >= 8 * MEGABYTE // len(VALUE) - 1
