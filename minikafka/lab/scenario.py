"""A scenario: one cell, one seed, and which of its faults happen. Its token repeats the run.

``CELL@17`` is seed 17 of a cell with all faults that the seed draws; ``CELL@17+0.2`` keeps the
first and the third of them, as shrinking leaves it. ``CELL@17!1.5.kill.leader`` has a strike of
somebody's own, at 1.5 seconds. A bare number draws the cell, too.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final, NamedTuple, Self

from .matrix import Cell, cells

OWN_ACTIONS: Final = (
    "kill",
    "start",
    "pause",
    "resume",
    "cut",
    "heal",
    "slow",
    "power",
    "clock",
)
OWN_TARGETS: Final = ("leader", "follower", "1", "2", "3")
_OWN: Final = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\.([a-z]+)\.(\w+)", re.ASCII)


class OwnStrike(NamedTuple):
    """Something that goes wrong because somebody says so.

    Attributes:
        at_s: when, in seconds from the beginning of the run.
        action: one of `OWN_ACTIONS`: ``cut`` takes a node off the network, ``heal`` mends all
            links, ``slow`` delays all messages, ``power`` is ``kill`` with the loss of what was not
            synced, ``clock`` moves the node's clock on by an hour.
        target: one of `OWN_TARGETS`.
    """

    at_s: float
    action: str
    target: str

    def __str__(self) -> str:
        return f"{self.at_s:g}.{self.action}.{self.target}"


class Scenario(NamedTuple):
    """What a run is determined by.

    Attributes:
        cell: of the matrix.
        seed: everything that is left to chance follows from it.
        kept: numbers of the faults that happen, in the order of their drawing; None for all.
        own: strikes beside those.
    """

    cell: Cell
    seed: int
    kept: tuple[int, ...] | None = None
    own: tuple[OwnStrike, ...] = ()

    def __str__(self) -> str:
        kept = "" if self.kept is None else "+" + ".".join(map(str, self.kept))
        own = "".join(f"!{one}" for one in self.own)
        return f"{self.cell}@{self.seed}{kept}{own}"

    @classmethod
    def parse(cls, token: str) -> Self:
        """The scenario of a token.

        Raises:
            ValueError: it is not a token; the message says what is wrong with it.
        """
        if token.isdecimal():
            seed = int(token)
            return cls(Random(seed).choice(list(cells())), seed)
        name, at, rest = token.partition("@")
        rest, *own = rest.split("!")
        number, plus, kept = rest.partition("+")
        if not at or not number.isdecimal():
            raise ValueError(f"{token!r} is neither a number nor CELL@SEED")
        words = kept.split(".") if kept else []
        if not all(word.isdecimal() for word in words):
            raise ValueError(f"{token!r}: what follows + are numbers with dots between them")
        return cls(
            Cell.parse(name),
            int(number),
            tuple(map(int, words)) if plus else None,
            tuple(_own_strike(token, one) for one in own),
        )


def _own_strike(token: str, text: str) -> OwnStrike:
    found = _OWN.fullmatch(text)
    if found is None or found[2] not in OWN_ACTIONS or found[3] not in OWN_TARGETS:
        raise ValueError(
            f"{token!r}: {text!r} is no strike SECONDS.ACTION.TARGET with an action of "
            f"{', '.join(OWN_ACTIONS)} and a target of {', '.join(OWN_TARGETS)}"
        )
    return OwnStrike(float(found[1]), found[2], found[3])
