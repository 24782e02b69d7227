"""Compares what was acknowledged with what came back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison found; all but the first two have to be 0.

    Attributes:
        acknowledged: records that the broker acknowledged.
        received: records that came back, each time counted.
        unacknowledged: records that were sent and never acknowledged.
        lost: acknowledged, and did not come back.
        duplicated: came back more than once; each further time counts.
        out_of_order: came after a later record of the same key.
        strange: came back and were never sent, or with another key or content.
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
        """Whether every record was acknowledged and came back once, in order and unchanged."""
        return not (
            self.unacknowledged or self.lost or self.duplicated or self.out_of_order or self.strange
        )


class Ledger:
    """Books of all records that are sent, by their number.

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
        """A record came back that says it is record `number`."""
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
        """The comparison."""
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
    """The flight's row in the file, which stands behind ``{"row":``; -1 if nothing like it does."""
    try:
        return int((document or b"").split(b",", 1)[0].removeprefix(b'{"row":'))
    except ValueError:
        return -1
