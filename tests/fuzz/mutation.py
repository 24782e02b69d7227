"""Mutations: what is done to an input, as values that a test can draw and shrink."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

INTERESTING: Final = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x00\x00",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\xff" * 8,
    b"\xff\xff\xff\xff\x0f",  # the largest varint of 32 bits
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80",
    b"\xdd\x7f\xff\xff\xff",  # msgpack: an array, a map and bytes of two thousand million
    b"\xdf\x7f\xff\xff\xff",
    b"\xc6\x7f\xff\xff\xff",
    b"\x91" * 40,
)
"""Edges of numbers, counts and lengths in the formats that are read here."""


class Edit(NamedTuple):
    """At ``place`` (modulo the length), ``removed`` bytes go and ``inserted`` ones come."""

    place: int
    removed: int
    inserted: bytes


def mutated(content: bytes, edits: Sequence[Edit]) -> bytes:
    """The content after the edits."""
    for place, removed, inserted in edits:
        at = place % (len(content) + 1)
        content = content[:at] + inserted + content[at + removed :]
    return content


def random_edits(dice: Random, others: Sequence[bytes]) -> list[Edit]:
    """A few edits, small ones mostly; sometimes a piece of another input."""
    edits: list[Edit] = []
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        place = dice.randrange(1 << 16)
        kind = dice.randrange(6)
        if kind < 2:
            inserted = dice.choice(INTERESTING)
            edits.append(Edit(place, len(inserted), inserted))
        elif kind == 2:
            edits.append(Edit(place, 1, dice.randbytes(1)))
        elif kind == 3:
            edits.append(Edit(place, dice.randint(1, 12), b""))
        elif kind == 4:
            edits.append(Edit(place, 0, dice.randbytes(dice.randint(1, 6))))
        else:
            other = dice.choice(others)
            start = dice.randrange(len(other) + 1)
            edits.append(Edit(place, dice.choice((0, 4, 16)), other[start : start + 32]))
    return edits
