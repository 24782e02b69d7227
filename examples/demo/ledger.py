"""Compares what was acknowledged with what came back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison; all but the first two must be 0.

    Attributes:
        acknowledged: records that the broker acknowledged.
        received: records that were read back, counting duplicates.
        unacknowledged: records that were sent, but not acknowledged.
        lost: records that were acknowledged, but not read back.
        duplicated: how often a record was read back again.
        out_of_order: records that came after a later record of the same key.
        strange: records that were never sent, or with another key or value.
    """

    acknowledged: int
    received: int
    unacknowledged: int
    lost: int
    duplicated: int
    out_of_order: int
    strange: int

    @property
    def is_good(self) -> bool:
        """Whether every record was acknowledged, and read back once, in order and unchanged."""
        return not (
            self.unacknowledged or self.lost or self.duplicated or self.out_of_order or self.strange
        )


class Ledger:
    """An account of all records, by number.

    Args:
        sent: (key, value) of each record, in the order in which they are sent.
    """

    def __init__(self, sent: Iterable[tuple[bytes, bytes]]) -> None:
        self._sent = list(sent)
        self._is_acknowledged = bytearray(len(self._sent))
        self._times_received = [0] * len(self._sent)
        self._latest_of_key: dict[bytes, int] = {}
        self._out_of_order = 0
        self._strange = 0
        self._received = 0
        self.acknowledged = 0

    def acknowledge(self, number: int) -> None:
        """The broker has acknowledged record `number`."""
        self.acknowledged += not self._is_acknowledged[number]
        self._is_acknowledged[number] = True

    def receive(self, number: int, key: bytes | None, value: bytes | None) -> None:
        """A record was read back that claims to be record `number`."""
        self._received += 1
        if not 0 <= number < len(self._sent) or self._sent[number] != (key, value):
            self._strange += 1
            return
        self._times_received[number] += 1
        if self._times_received[number] > 1:
            return
        assert key is not None
        if number < self._latest_of_key.get(key, -1):
            self._out_of_order += 1
        else:
            self._latest_of_key[key] = number

    def verdict(self) -> Verdict:
        """Compare what was acknowledged with what was received."""
        return Verdict(
            acknowledged=self.acknowledged,
            received=self._received,
            unacknowledged=len(self._sent) - self.acknowledged,
            lost=sum(
                1
                for is_acknowledged, times in zip(
                    self._is_acknowledged, self._times_received, strict=True
                )
                if is_acknowledged and not times
            ),
            duplicated=sum(times - 1 for times in self._times_received if times > 1),
            out_of_order=self._out_of_order,
            strange=self._strange,
        )


def row_of(document: bytes | None) -> int:
    """The flight's row in the file, from its ``{"row":``; -1 if there is none."""
    try:
        return int((document or b"").split(b",", 1)[0].removeprefix(b'{"row":'))
    except ValueError:
        return -1
