"""Clients that hang up, never read, or read slowly: the broker stays small and serves others."""

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
from minikafka.protocol.frames import decode_response_header, encode_request
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.records import encode_batch
from minikafka.protocol.schema import Request
from tests.faults.link import EARLIEST, Link, records_in
from tests.interop.brokers import InteropBroker
from tests.interop.waiting import work_until

MEGABYTE = 1 << 20
VALUE = b"v" * 500_000
VALUES = 40
GROWTH_MAX_BYTES = 60 * MEGABYTE


@pytest.fixture
def broker(tmp_path: Path) -> Generator[InteropBroker]:
    settings = {
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": "20",
        "log.segment.delete.delay.ms": "0",
        "log.segment.bytes": str(8 * MEGABYTE),
    }
    with InteropBroker(tmp_path, settings) as broker, Link(broker.host_and_port) as link:
        link.create_topic("t", 20, {})
        for number in range(VALUES):
            assert link.produce("t", 0, batch(VALUE)).base_offset == number
        for partition in range(1, 20):
            link.produce("t", partition, batch(VALUE))
        yield broker
        broker.check_log()


def batch(value: bytes) -> bytes:
    return bytes(encode_batch([(b"k", value, (), 1)]))


def fetch(*places: tuple[int, int], max_wait_ms: int = 0, session_epoch: int = -1) -> FetchRequest:
    asked = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=50 * MEGABYTE)
        for number, offset in places
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=50 * MEGABYTE,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic="t", partitions=asked)],
    )


def frame(request: Request, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "rude"))


def memory_of(broker: InteropBroker) -> int:
    return int(psutil.Process(broker.process.pid).memory_info().rss)


def check_that_others_are_served(broker: InteropBroker) -> None:
    with Link(broker.host_and_port) as link:
        answer = link.produce("t", 19, batch(b"polite"))
        assert answer.error_code == ErrorCode.NONE


def test_connections_that_are_dropped_leave_nothing_behind(broker: InteropBroker) -> None:
    dice = random.Random(1)
    everything = [(number, 0) for number in range(20)]
    openings = [
        b"",
        b"\0",
        b"\0\0\1\0\0\3\0\1",
        frame(fetch((1, 1), max_wait_ms=2**31 - 1), 11),
        frame(fetch(*everything), 11),
        frame(MetadataRequest(topics=None), 9) * 30,
    ]
    process = psutil.Process(broker.process.pid)
    before = process.num_fds()
    for _ in range(1000):
        with socket.create_connection(broker.host_and_port) as client:
            client.sendall(dice.choice(openings))
            if dice.random() < 0.3:  # a reset instead of an orderly end
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    files = 2 * 20  # a log and an index each
    work_until(
        lambda: process.num_fds() <= before + files,
        lambda: check_that_others_are_served(broker),
        what="the connections to be closed",
        show=process.num_fds,
    )


def test_clients_that_never_read_take_little_memory(broker: InteropBroker) -> None:
    before = memory_of(broker)
    everything = [(number, 0) for number in range(20)]
    openings = [
        frame(fetch((0, 0)), 11),
        frame(fetch(*everything), 11) * 20,
        frame(MetadataRequest(topics=None), 9) * 1000,
    ]
    with ExitStack() as stack:
        for number in range(60):
            client = stack.enter_context(socket.create_connection(broker.host_and_port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.send(openings[number % len(openings)])
        for _ in range(20):
            check_that_others_are_served(broker)
        assert memory_of(broker) - before < GROWTH_MAX_BYTES


@pytest.mark.parametrize("ending", ["retention", "deletion"])
def test_a_slow_reader_gets_what_it_was_promised_though_the_file_is_gone(
    broker: InteropBroker, ending: str
) -> None:
    with Link(broker.host_and_port) as slow, Link(broker.host_and_port) as link:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.send(fetch((0, 0)), 11)
        size = slow.socket.recv(4, socket.MSG_WAITALL)  # the answer is on its way
        segment = broker.data_dir / "t-0" / "00000000000000000000.log"
        if ending == "retention":
            link.delete_records("t", VALUES)
            assert link.offset_at("t", 0, EARLIEST) == VALUES
        else:
            link.delete_topics(["t"])
        work_until(
            lambda: not segment.exists(),
            lambda: link.topic("t"),
            what="the segment to be removed",
        )
        content = bytearray()
        while len(content) < int.from_bytes(size, "big"):
            content += slow.socket.recv(MEGABYTE)
        _, position = decode_response_header(memoryview(content), flexible=False)
        answer = FetchResponse.decode(11, memoryview(content), position)
        records = list(records_in(answer.responses[0].partitions[0]))
        assert [record.offset for record in records] == list(range(len(records)))
        assert {record.value for record in records} == {VALUE}
        assert len(records) >= 8 * MEGABYTE // len(VALUE) - 1
