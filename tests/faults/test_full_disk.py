"""Writes that the file system refuses: clear errors, nothing acknowledged is lost, and it recovers.

To simulate a full disk, the limit of file sizes of the running broker is lowered,
so that every write past it fails half-way, as on a full disk. Only logs grow that large.
"""

from __future__ import annotations

from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from tests.faults.damage import limit_files
from tests.kit.live import JudgedBroker
from tests.kit.wire import EARLIEST, LATEST, Wire, next_offset_in, one_batch, records_of

LIMIT_BYTES = 400_000
PARTITIONS = 3


class Bookkeeper:
    """Writes values, and knows which were acknowledged where."""

    def __init__(self) -> None:
        self.acked: dict[tuple[int, int], bytes] = {}
        self._count = 0

    def write(self, link: Wire, partition: int) -> ErrorCode:
        self._count += 1
        value = b"%d %s" % (self._count, b"v" * 20_000)
        answer = link.produce("t", partition, one_batch(value))
        if answer.error_code == ErrorCode.NONE:
            self.acked[partition, answer.base_offset] = value
        else:
            assert answer.base_offset == -1
            assert answer.error_message
        return ErrorCode(answer.error_code)

    def check(self, link: Wire) -> None:
        found: dict[tuple[int, int], bytes | None] = {}
        for partition in range(PARTITIONS):
            offset = link.offset_at("t", partition, EARLIEST)
            while offset < link.offset_at("t", partition, LATEST):
                answer = link.fetch("t", partition, offset)
                for record in records_of(answer):
                    found[partition, record.offset] = record.value
                offset = next_offset_in(answer, offset)
        lost = {place for place, value in self.acked.items() if found.get(place) != value}
        assert not lost, f"acknowledged at (partition, offset) and not there: {sorted(lost)}"
        assert found.keys() == self.acked.keys(), "refused records are there"


def test_acknowledged_records_survive_a_disk_that_fills_up(tmp_path: Path) -> None:
    books = Bookkeeper()
    with JudgedBroker(tmp_path) as broker:
        with Wire(broker.bootstrap) as link:
            link.create_topic("t", PARTITIONS, {"segment_bytes": 10_000_000})
            limit_files(broker.pid, LIMIT_BYTES)
            full: set[int] = set()
            while len(full) < PARTITIONS:
                for partition in range(PARTITIONS):
                    code = books.write(link, partition)
                    assert code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
                    if code is not ErrorCode.NONE:
                        full.add(partition)
            link.create_topic("small", 1, {})
            small = link.produce("small", 0, one_batch(b"v"))
            assert small.error_code == ErrorCode.NONE
        broker.kill()
        broker.start()  # without the limit: there is room again
        with Wire(broker.bootstrap) as link:
            books.check(link)
            assert link.offset_at("small", 0, LATEST) == 1
            for partition in range(PARTITIONS):
                assert books.write(link, partition) is ErrorCode.NONE
            books.check(link)
        assert broker.stop() == 0


def test_a_start_on_a_full_disk_and_a_stop_on_it(tmp_path: Path) -> None:
    books = Bookkeeper()
    with JudgedBroker(tmp_path) as broker:
        with Wire(broker.bootstrap) as link:
            link.create_topic("t", PARTITIONS, {})
            for number in range(60):
                assert books.write(link, number % PARTITIONS) is ErrorCode.NONE
        broker.kill()
        broker.start()
        limit_files(broker.pid, LIMIT_BYTES)
        with Wire(broker.bootstrap) as link:
            books.check(link)
            assert books.write(link, 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.stop() == 0
        broker.start()
        with Wire(broker.bootstrap) as link:
            books.check(link)
