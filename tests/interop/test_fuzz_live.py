"""A broker among hostile clients: it serves the others, stays small, and shows no bug."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from minikafka.broker.handlers import API_TABLE
from minikafka.protocol.api import ApiKey
from minikafka.protocol.messages import fetch, list_offsets, metadata, produce
from minikafka.protocol.records import Compression, encode_batch
from tests.interop.fuzzing import (
    FOLLOWER,
    FOLLOWER_ID,
    KNOWN,
    TIMES,
    Attacker,
    batch,
    every_case,
    frames,
    garbage,
)
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import Wire, fetch_request, one_batch, produce_request

MIB = 1 << 20
GROWTH_BYTES_MAX = 48 * MIB
"""How much memory a broker may take beyond what it had when it was ready."""

FRAMES_PER_VERSION = 12
BUSY = {
    "offsets.topic.num.partitions": "4",
    "group.min.session.timeout.ms": "100",
    "log.cleaner.backoff.ms": "20",
    "log.retention.check.interval.ms": "50",
    "log.flush.scheduler.interval.ms": "50",
    "offsets.retention.check.interval.ms": "100",
    "minikafka.frame.timeout.ms": "1000",
}
"""So that what runs in the background meets what the hostile left behind."""

SMALL_SEGMENTS = {"segment_bytes": 1500, "min_cleanable_dirty_ratio": 0}
TOPICS: dict[str, dict[str, object]] = {
    KNOWN[0]: {"cleanup_policy": "compact", **SMALL_SEGMENTS},
    KNOWN[1]: {"cleanup_policy": "compact,delete", "retention_bytes": 9000, **SMALL_SEGMENTS},
    "fuzz-plain": {"compression_type": "uncompressed"},
    "fuzz-stamped": {"message_timestamp_type": "LogAppendTime", "compression_type": "zstd"},
}


class Target:
    """A broker under fire, and an honest client of it.

    Attributes:
        broker: the process.
        honest: a connection that must be served whatever happens.
        topic_ids: of topics that exist.
    """

    def __init__(self, broker: JudgedBroker, honest: Wire) -> None:
        self.broker = broker
        self.honest = honest
        self._process = psutil.Process(broker.process.pid)
        self._memory_at_first = self.memory
        topics = honest.ask(metadata.Request(topics=None), 12, metadata.Response).topics
        self.topic_ids = [topic.topic_id for topic in topics]
        self._values = 0

    @property
    def memory(self) -> int:
        """Resident memory in bytes."""
        return int(self._process.memory_info().rss)

    @property
    def open_files(self) -> int:
        """Open file descriptors, sockets included."""
        return int(self._process.num_fds())

    def check(self) -> None:
        """It serves, uses little memory, and logged no bug."""
        assert self.memory - self._memory_at_first < GROWTH_BYTES_MAX
        self.broker.check_log()
        records = one_batch(b"%d" % self._values)
        request = produce_request("honest", records)
        answer = self.honest.ask(request, 9, produce.Response).responses[0].partition_responses[0]
        offset, self._values = self._values, self._values + 1
        assert (answer.error_code, answer.base_offset) == (0, offset)
        found = self.honest.ask(fetch_request("honest", offset), 11, fetch.Response)
        fetched = found.responses[0].partitions[0].records
        assert isinstance(fetched, memoryview)
        assert bytes(fetched[61:]) == records[61:]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Generator[Target]:
    folder = tmp_path_factory.mktemp("fuzz")
    with JudgedBroker(folder, BUSY) as broker, Wire(broker.bootstrap) as honest:
        for name, settings in TOPICS.items():
            honest.create_topic(name, 1, settings)
        honest.create_topic("honest", 1, {"retention_ms": -1})
        yield Target(broker, honest)


@contextmanager
def connections(target: Target, count: int) -> Generator[list[Wire]]:
    """Many connections, closed in the end."""
    with ExitStack() as stack:
        yield [stack.enter_context(Wire(target.broker.bootstrap)) for _ in range(count)]


@pytest.mark.parametrize("api_key", list(API_TABLE), ids=lambda key: ApiKey(key).name.lower())
def test_requests_of_every_version_with_edges_and_damage(api_key: int, target: Target) -> None:
    attacker = Attacker(target.broker.bootstrap)
    for case in every_case():
        if api_key == case.message.API_KEY:
            dice = random.Random(str(case))
            for frame in frames(case, dice, target.topic_ids, FRAMES_PER_VERSION):
                attacker.send(frame)
    attacker.hang_up()
    assert attacker.answered
    assert attacker.refused
    target.check()


def test_bytes_that_are_not_frames(target: Target) -> None:
    dice = random.Random("garbage")
    for _ in range(200):
        with Wire(target.broker.bootstrap) as wire:
            wire.socket.sendall(garbage(dice))
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.receive_frame() is not None:
                pass
    target.check()


def test_apis_and_versions_that_do_not_exist_end_the_connection(target: Target) -> None:
    for api_key in (-1, 4, 7, 999, 2**15 - 1, *API_TABLE):
        version = 99 if api_key in API_TABLE else 0
        if api_key == ApiKey.API_VERSIONS:
            continue  # answers in version 0
        with Wire(target.broker.bootstrap) as wire:
            head = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big")
            wire.socket.sendall(b"\x00\x00\x00\x0a" + head + b"\x00\x00\x00\x01\xff\xff")
            assert wire.receive_frame() is None
    target.check()


def test_malformed_batches_do_no_harm(target: Target) -> None:
    dice = random.Random("hollow")
    accepted = 0
    with Wire(target.broker.bootstrap) as wire:
        for _ in range(100):
            for topic in TOPICS:
                request = produce_request(topic, batch(dice))
                answer = wire.ask(request, 9, produce.Response).responses[0].partition_responses[0]
                accepted += answer.error_code == 0
                asked = list_offsets.Partition(
                    partition_index=0, timestamp=dice.choice((*TIMES, -3))
                )
                by_time = list_offsets.Topic(name=topic, partitions=[asked])
                wire.ask(
                    list_offsets.Request(replica_id=-1, topics=[by_time]), 7, list_offsets.Response
                )
                wire.ask(fetch_request(topic, dice.randint(0, 30)), 11, fetch.Response)
    assert accepted > 50
    target.check()


# --- slow, silent and greedy clients -----------------------------------------------------------


def test_clients_that_announce_more_than_they_send_get_no_memory_and_are_closed(
    target: Target,
) -> None:
    announced = b"\x06\x00\x00\x00" + b"\x00\x00\x00\x09" + b"\x00\x00\x00\x01\xff\xff"
    with connections(target, 200) as wires:
        for number, wire in enumerate(wires):
            cut = 1 + number % len(announced) if number % 2 else len(announced)
            wire.socket.sendall(announced[:cut])
        for _ in range(5):
            target.check()
        for wire in wires:
            assert wire.receive_frame() is None  # after minikafka.frame.timeout.ms
    target.check()


def test_a_frame_may_come_byte_by_byte(target: Target) -> None:
    with Wire(target.broker.bootstrap) as wire:
        for byte in FOLLOWER:
            wire.socket.sendall(bytes([byte]))
        answer = wire.receive_frame()
    assert answer is not None
    assert answer[:4] == FOLLOWER_ID
    target.check()


def test_pipelined_requests_are_answered_in_order(target: Target) -> None:
    count = 5000
    with Wire(target.broker.bootstrap) as wire:
        requests = [
            FOLLOWER[:8] + number.to_bytes(4, "big") + b"\xff\xff" for number in range(count)
        ]
        pieces = b"".join(requests)
        sender = threading.Thread(target=wire.socket.sendall, args=(pieces,))
        sender.start()
        answers = [int.from_bytes((wire.receive_frame() or b"")[:4], "big") for _ in range(count)]
        sender.join()
    assert answers == list(range(count))
    target.check()


def test_clients_that_do_not_read_their_answers_get_no_memory(target: Target) -> None:
    with Wire(target.broker.bootstrap) as wire:
        wire.create_topic("large", 1, {})
        for _ in range(20):
            records = one_batch(bytes(900_000))
            answer = wire.ask(produce_request("large", records), 9, produce.Response)
            assert answer.responses[0].partition_responses[0].error_code == 0
    with connections(target, 30) as wires:
        for wire in wires:
            for _ in range(10):
                wire.send(fetch_request("large", 0, max_bytes=50_000_000), 11)
        for _ in range(10):
            target.check()
    target.check()


def bombs() -> Iterator[produce.Request]:
    for codec in (Compression.GZIP, Compression.ZSTD, Compression.LZ4, Compression.SNAPPY):
        bomb = encode_batch([(None, bytes(150_000_000), (), 1000)], compression=codec)
        yield produce_request("fuzz-plain", bytes(bomb))


def test_a_decompression_bomb_is_refused_and_gets_no_memory(target: Target) -> None:
    for bomb in bombs():
        answer = target.honest.ask(bomb, 9, produce.Response)
        assert answer.responses[0].partition_responses[0].error_code != 0
        target.check()


def test_decompression_bombs_at_once_leave_no_memory_behind(target: Target) -> None:
    each = [*bombs(), *bombs()]
    with connections(target, len(each)) as wires:
        for _ in range(3):
            for wire, bomb in zip(wires, each, strict=True):
                wire.send(bomb, 9)
            for wire in wires:
                wire.receive(produce.Response, 9)
    target.check()


def test_connections_that_come_and_go_leave_nothing_behind(target: Target) -> None:
    target.check()
    before = target.open_files
    for _ in range(3):
        with connections(target, 200) as wires:
            for wire in wires[::2]:
                wire.socket.sendall(FOLLOWER)
            for wire in wires[::4]:
                assert wire.receive_frame() is not None
        target.check()
    assert target.open_files <= before + 10


def test_waiting_requests_of_disconnected_clients_are_dropped(target: Target) -> None:
    before = target.open_files
    with connections(target, 100) as wires:
        for wire in wires:
            wire.send(fetch_request("honest", 0, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1), 11)
    work_until(
        lambda: target.open_files <= before + 10,
        target.check,
        what="the end of the connections",
        show=lambda: (before, target.open_files),
    )
    target.check()
