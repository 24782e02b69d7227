"""Places in a topic, as words: offsets, times, durations ago, ``beginning`` and ``end``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import click

_OFFSET: Final = re.compile(r"[0-9]{1,19}")
_FROM_END: Final = re.compile(r"-[0-9]{1,19}")
_UNIX_MS: Final = re.compile(r"@[0-9]{1,15}")
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_PIECE: Final = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(ms|s|min|m|h|d|w)(?![a-z])"
_AGO: Final = re.compile(rf"-\s*(?P<minus>(?:{_PIECE}\s*)+)|(?P<ago>(?:{_PIECE}\s*)+)ago")
_OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where to begin or to stop in every partition.

    Attributes:
        kind: ``offset`` counts from 0, ``from_end`` back from the end; ``time`` is in ms since
            1970 and means the first record that is not older.
        number: for these three.
    """

    kind: Literal["beginning", "end", "offset", "from_end", "time"]
    number: int = 0


BEGINNING: Final = Place("beginning")
END: Final = Place("end")


def parse_place(text: str, now_ms: int) -> Place:
    """The place that a text names.

    Raises:
        ValueError: it names none.
    """
    word = text.strip()
    if word in ("beginning", "end"):
        return BEGINNING if word == "beginning" else END
    if _OFFSET.fullmatch(word):
        return Place("offset", min(int(word), _OFFSET_MAX))
    if _FROM_END.fullmatch(word):
        return Place("from_end", min(-int(word), _OFFSET_MAX))
    if _UNIX_MS.fullmatch(word):
        return Place("time", int(word[1:]))
    if ago := _AGO.fullmatch(word):
        pieces = re.findall(_PIECE, ago["minus"] or ago["ago"])
        back_ms = sum(float(count) * _UNITS_MS[unit] for count, unit in pieces)
        return Place("time", max(0, now_ms - round(back_ms)))
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise ValueError(
            f"{text!r} is no offset (100; -10 before the end), no time (2013-01-31T08:00, UTC; "
            "@1359619200000 in ms), no duration (-1h30m, '5m ago'), and not 'beginning' or 'end'"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Place("time", max(0, round(moment.timestamp() * 1000)))


class PlaceType(click.ParamType[Place]):
    """A `Place` as an option's value."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Place:
        if isinstance(value, Place):
            return value
        try:
            return parse_place(str(value), round(datetime.now(UTC).timestamp() * 1000))
        except ValueError as error:
            self.fail(str(error), param, ctx)
