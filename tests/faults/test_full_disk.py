"""Writes that the file system refuses: clear errors, nothing acknowledged is lost, and it recovers.

A full disk without a disk of one's own: the limit of file sizes of the running broker is lowered,
so that every write past it fails half-way, as on a full disk. Only logs grow that large.
"""

from __future__ import annotations

import resource
from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import encode_batch
from tests.faults.link import EARLIEST, LATEST, Link, next_offset_in, records_in
from tests.interop.brokers import InteropBroker

LIMIT_BYTES = 400_000
PARTITIONS = 3


def limit_files(broker: InteropBroker, size_bytes: int) -> None:
    _, hard = resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


class Bookkeeper:
    """Writes values, and knows which were acknowledged where."""

    def __init__(self) -> None:
        self.acked: dict[tuple[int, int], bytes] = {}
        self._count = 0

    def write(self, link: Link, partition: int) -> ErrorCode:
        self._count += 1
        value = b"%d %s" % (self._count, b"v" * 20_000)
        answer = link.produce("t", partition, bytes(encode_batch([(b"k", value, (), 1)])))
        if answer.error_code == ErrorCode.NONE:
            self.acked[partition, answer.base_offset] = value
        else:
            assert answer.base_offset == -1
            assert answer.error_message
        return ErrorCode(answer.error_code)

    def check(self, link: Link) -> None:
        found: dict[tuple[int, int], bytes | None] = {}
        for partition in range(PARTITIONS):
            offset = link.offset_at("t", partition, EARLIEST)
            while offset < link.offset_at("t", partition, LATEST):
                answer = link.fetch("t", partition, offset)
                for record in records_in(answer):
                    found[partition, record.offset] = record.value
                offset = next_offset_in(answer, offset)
        lost = {place for place, value in self.acked.items() if found.get(place) != value}
        assert not lost, f"acknowledged at (partition, offset) and not there: {sorted(lost)}"
        assert found.keys() == self.acked.keys(), "refused records are there"


def test_what_was_acknowledged_survives_a_disk_that_fills_up(tmp_path: Path) -> None:
    books = Bookkeeper()
    with InteropBroker(tmp_path) as broker:
        with Link(broker.host_and_port) as link:
            link.create_topic("t", PARTITIONS, {"segment_bytes": 10_000_000})
            limit_files(broker, LIMIT_BYTES)
            full: set[int] = set()
            while len(full) < PARTITIONS:
                for partition in range(PARTITIONS):
                    code = books.write(link, partition)
                    assert code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
                    if code is not ErrorCode.NONE:
                        full.add(partition)
            link.create_topic("small", 1, {})
            small = link.produce("small", 0, bytes(encode_batch([(b"k", b"v", (), 1)])))
            assert small.error_code == ErrorCode.NONE
        broker.kill()
        broker.start()  # without the limit: there is room again
        with Link(broker.host_and_port) as link:
            books.check(link)
            assert link.offset_at("small", 0, LATEST) == 1
            for partition in range(PARTITIONS):
                assert books.write(link, partition) is ErrorCode.NONE
            books.check(link)
        assert broker.stop() == 0


def test_a_start_on_a_full_disk_and_a_stop_on_it(tmp_path: Path) -> None:
    books = Bookkeeper()
    with InteropBroker(tmp_path) as broker:
        with Link(broker.host_and_port) as link:
            link.create_topic("t", PARTITIONS, {})
            for number in range(60):
                assert books.write(link, number % PARTITIONS) is ErrorCode.NONE
        broker.kill()
        broker.start()
        limit_files(broker, LIMIT_BYTES)
        with Link(broker.host_and_port) as link:
            books.check(link)
            assert books.write(link, 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.stop() == 0
        broker.start()
        with Link(broker.host_and_port) as link:
            books.check(link)
