"""Clients that write, and know exactly what they were promised."""

from __future__ import annotations

from collections import deque

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record, encode_batch
from tests.faults.campaign import Campaign, Worker
from tests.kit.wire import EARLIEST, LATEST, Wire, next_offset_in, one_batch, records_of

_IN_FLIGHT_MAX = 5
TIMESTAMP_MS = 1_700_000_000_000


def read_all(campaign: Campaign, link: Wire, topic: str, partition: int) -> list[Record]:
    """Every record of a partition, from the log start offset to the high watermark."""
    offset = link.offset_at(topic, partition, EARLIEST)
    end = link.offset_at(topic, partition, LATEST)
    records: list[Record] = []
    while offset < end:
        answer = link.fetch(topic, partition, offset)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention was faster
            offset = link.offset_at(topic, partition, EARLIEST)
            continue
        assert answer.error_code == ErrorCode.NONE, (topic, partition, offset, answer)
        found = [record for record in records_of(answer) if record.offset >= offset]
        campaign.sightings.see((topic, partition), found)
        records += found
        following = next_offset_in(answer, offset)
        assert following > offset, f"{topic}-{partition}: nothing at {offset}, the end is {end}"
        offset = following
    return records


class IdempotentWriter(Worker):
    """An idempotent producer that keeps five batches in flight and repeats what was not acked.

    So at the end everything that it sent is there exactly once and in order, where it was acked.
    """

    def __init__(
        self,
        campaign: Campaign,
        topic: str,
        partition: int,
        number: int = 0,
        *,
        is_kept: bool = True,
    ) -> None:
        super().__init__(campaign, f"idempotent writer {number} of {topic}-{partition}")
        self.topic = topic
        self.partition = partition
        self._producer_id = -1
        self._waiting: deque[tuple[int, int]] = deque()  # first value and number of values
        self._next = 0
        self._acked: dict[int, int] = {}  # first value to its offset
        self._is_kept = is_kept

    def _batch(self, first: int, count: int) -> bytes:
        prefix = f"{self.name}:"
        padding = "x" * (first * 7919 % 900)
        records = [
            (b"key", f"{prefix}{number}:{padding}".encode(), (), TIMESTAMP_MS + number)
            for number in range(first, first + count)
        ]
        return bytes(
            encode_batch(
                records, producer_id=self._producer_id, producer_epoch=0, base_sequence=first
            )
        )

    def begin(self, link: Wire) -> None:
        """Get a producer id once; send again what was not acknowledged."""
        if self._producer_id < 0:
            self._producer_id = link.new_producer_id()
        for first, count in self._waiting:
            link.send_batch(self.topic, self.partition, self._batch(first, count))
        self._drain(link, len(self._waiting))

    def step(self, link: Wire) -> None:
        """Send some batches, then take some answers."""
        for _ in range(self.dice.randint(1, _IN_FLIGHT_MAX)):
            if len(self._waiting) < _IN_FLIGHT_MAX:
                count = self.dice.randint(1, 3)
                self._waiting.append((self._next, count))
                self._next += count
                link.send_batch(
                    self.topic, self.partition, self._batch(self._waiting[-1][0], count)
                )
        self._drain(link, self.dice.randint(1, len(self._waiting)))

    def finish(self, link: Wire) -> None:
        """Everything gets its answer."""
        self._drain(link, len(self._waiting))

    def _drain(self, link: Wire, count: int) -> None:
        for _ in range(count):
            answer = link.receive_ack()
            assert answer.error_code == ErrorCode.NONE, (self.name, answer)
            first, _ = self._waiting.popleft()
            self._acked[first] = answer.base_offset

    def check(self, link: Wire) -> None:
        """All values once, in order, the first of each batch where it was acknowledged."""
        prefix = f"{self.name}:"
        found = [
            (int(value.split(":")[1]), record.offset)
            for record in read_all(self.campaign, link, self.topic, self.partition)
            if record.value and (value := record.value.decode()).startswith(prefix)
        ]
        numbers = [number for number, _ in found]
        if self._is_kept:
            assert numbers == list(range(self._next)), _difference(self.name, numbers, self._next)
        else:  # retention or DeleteRecords took the beginning
            first = numbers[0] if numbers else self._next
            expected = list(range(first, self._next))
            assert numbers == expected, _difference(self.name, numbers, self._next)
        offsets = dict(found)
        moved = {
            number: (offset, offsets[number])
            for number, offset in self._acked.items()
            if number in offsets and offsets[number] != offset
        }
        assert not moved, f"{self.name}: acknowledged at one offset, found at another: {moved}"


def _difference(name: str, numbers: list[int], end: int) -> str:
    lost = sorted(set(range(end)) - set(numbers))
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    in_order = sorted(numbers) == numbers
    return f"{name}: of {end} lost {lost[:20]}, twice {twice[:20]}, in order: {in_order}"


class PlainWriter(Worker):
    """A producer that is not idempotent and never repeats: what was acked is there, once."""

    def __init__(self, campaign: Campaign, topic: str, partition: int) -> None:
        super().__init__(campaign, f"plain writer of {topic}-{partition}")
        self.topic = topic
        self.partition = partition
        self._next = 0
        self._acked: dict[int, int] = {}

    def step(self, link: Wire) -> None:
        number = self._next
        self._next += 1
        value = f"{self.name}:{number}:{'y' * self.dice.randint(0, 300)}".encode()
        batch = one_batch(value, timestamp_ms=TIMESTAMP_MS)
        answer = link.produce(self.topic, self.partition, batch)
        assert answer.error_code == ErrorCode.NONE, (self.name, answer)
        self._acked[number] = answer.base_offset

    def check(self, link: Wire) -> None:
        """Acknowledged values are where they were acknowledged; none is there twice."""
        prefix = f"{self.name}:".encode()
        found = [
            (int(record.value.split(b":")[1]), record.offset)
            for record in read_all(self.campaign, link, self.topic, self.partition)
            if record.value and record.value.startswith(prefix)
        ]
        numbers = [number for number, _ in found]
        assert numbers == sorted(set(numbers)), f"{self.name}: twice or out of order: {numbers}"
        offsets = dict(found)
        wrong = {
            number: offset
            for number, offset in self._acked.items()
            if offsets.get(number) != offset
        }
        assert not wrong, f"{self.name}: acknowledged (number: offset) and not there: {wrong}"


class KeyWriter(Worker):
    """Writes ever newer versions of a few keys, sometimes a tombstone, into a compacted topic."""

    def __init__(self, campaign: Campaign, topic: str, partition: int, number: int) -> None:
        super().__init__(campaign, f"key writer {number} of {topic}-{partition}")
        self.topic = topic
        self.partition = partition
        # For each key what it may be now: the last acknowledged version, or one written since
        # that got no answer. None is "not there".
        self._possible: dict[bytes, list[int | None]] = {}
        self._version = 0
        self._key_prefix = f"{number}-".encode()

    def step(self, link: Wire) -> None:
        """Write a few keys in one batch."""
        versions: dict[bytes, int | None] = {}
        records: list[tuple[bytes, bytes | None, tuple[()], int]] = []
        for _ in range(self.dice.randint(1, 4)):
            key = self._key_prefix + str(self.dice.randint(0, 12)).encode()
            self._version += 1
            is_tombstone = self.dice.random() < 0.1
            value = f"{self._version}:{'z' * self.dice.randint(0, 100)}".encode()
            records.append((key, None if is_tombstone else value, (), TIMESTAMP_MS))
            versions[key] = None if is_tombstone else self._version
        for key, version in versions.items():
            self._possible.setdefault(key, [None]).append(version)
        answer = link.produce(self.topic, self.partition, bytes(encode_batch(records)))
        assert answer.error_code == ErrorCode.NONE, (self.name, answer)
        for key, version in versions.items():
            self._possible[key] = [version]

    def check(self, link: Wire) -> None:
        """Each key has its last acknowledged version, or a newer one that got no answer."""
        latest: dict[bytes, int | None] = {}
        newest: dict[bytes, int] = {}
        for record in read_all(self.campaign, link, self.topic, self.partition):
            key, value = record.key, record.value
            if key is None or not key.startswith(self._key_prefix):
                continue
            latest[key] = None
            if value is not None:
                version = int(value.split(b":")[0])
                assert version > newest.get(key, 0), (self.name, key, version, newest)
                latest[key] = newest[key] = version
        wrong = {
            key: (possible, latest.get(key))
            for key, possible in self._possible.items()
            if latest.get(key) not in possible
        }
        assert not wrong, f"{self.name}: key: (what it may be, what it is) {wrong}"
