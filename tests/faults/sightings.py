"""Everything that was read: an offset, once read, always names the same record."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from hashlib import blake2b

from minikafka.protocol.records import Record

Place = tuple[str, int]
"""Topic and partition."""


class Sightings:
    """Every record that any client read, by offset; any thread may add."""

    def __init__(self) -> None:
        self._seen: dict[Place, dict[int, bytes]] = {}
        self._lock = threading.Lock()

    def see(self, place: Place, records: Iterable[Record]) -> None:
        """Note records of one answer.

        Raises:
            AssertionError: offsets do not rise, or one named another record before.
        """
        last_offset = -1
        with self._lock:
            seen = self._seen.setdefault(place, {})
            for record in records:
                offset = record.offset
                assert offset > last_offset, f"{place}: offset {offset} after {last_offset}"
                last_offset = offset
                digest = _digest(record)
                before = seen.setdefault(offset, digest)
                assert before == digest, f"{place}: offset {offset} names another record now"

    def expect(self, place: Place, offsets: Iterable[int]) -> None:
        """Check that every record seen is among those that are there now."""
        lost = sorted(self._seen.get(place, {}).keys() - set(offsets))
        assert not lost, f"{place}: records that were read have disappeared, at offsets {lost[:20]}"

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        with self._lock:
            for place in [place for place in self._seen if place[0] == topic]:
                del self._seen[place]


def _digest(record: Record) -> bytes:
    return blake2b(repr(record).encode(), digest_size=8).digest()
