"""Random Java regular expressions; most of them are well-formed."""

from __future__ import annotations

import random
from typing import Final

NAMES: Final = (
    *("a", "ab", "abc", "ABC", "a-b", "orders", "orders-1", "orders.eu", "Orders_EU", "b.c-d_e"),
    *("z9", "__x", "x.y.z", "aab", "bcb", "0", "007", "a1b2", "-", "_", ".."),
)
_CLASS_ITEMS: Final = (
    *("a", "b", "-", "a-c", "x-z", "A-Z", "0-9", r"\w", r"\D", r"\p{Lower}", r"\.", "_", "&", "^"),
    *(r"\-", r"\]", "]", "c-", "1", r"\x61", r"\s", "."),
)
_ATOMS: Final = (
    *("a", "b", "c", "orders", "-", ".", "^", "$", r"\d", r"\W", r"\b", r"\Q.\E", r"\Qa1\E"),
    *("(?i)", r"\p{Alpha}", r"\P{L}", r"\p{Punct}", r"\p{IsPunctuation}", r"\pL", r"\p{Nd}"),
    *(r"\h", "x", r"\.", r"\1", r"\z", r"\x2d", r"\056", r"\k<n>", "_", "{", "}", "]", "&&"),
    *(r"\cA", "(?x)", "0", r"\G", "eu"),
)
_GROUPS: Final = ("(", "(?:", "(?i:", "(?-i:", "(?=", "(?!", "(?<=", "(?>", "(?<n>")
_QUANTIFIERS: Final = ("*", "+", "?", "*+", "??", "{2}", "{1,}", "{0,2}", "{1}+", "++", "{,2}")


def drawn_pattern(dice: random.Random, depth: int = 0) -> str:
    """A pattern, or a group of one."""
    alternatives = [_sequence(dice, depth) for _ in range(dice.choice((1, 1, 2)))]
    return "|".join(alternatives)


def _sequence(dice: random.Random, depth: int) -> str:
    text = ""
    for _ in range(dice.randint(1, 3)):
        text += _atom(dice, depth)
        if dice.random() < 0.25:
            text += dice.choice(_QUANTIFIERS)
    return text


def _atom(dice: random.Random, depth: int) -> str:
    kind = dice.random()
    if kind < 0.3:
        return _class(dice, 0)
    if kind < 0.45 and depth < 3:
        return f"{dice.choice(_GROUPS)}{drawn_pattern(dice, depth + 1)})"
    return dice.choice(_ATOMS)


def _class(dice: random.Random, depth: int) -> str:
    text = "[^" if dice.random() < 0.3 else "["
    text += "".join(_class_item(dice, depth) for _ in range(dice.randint(1, 3)))
    while dice.random() < 0.3:
        text += "&&" + "".join(_class_item(dice, depth) for _ in range(dice.randint(1, 2)))
    return text + "]"


def _class_item(dice: random.Random, depth: int) -> str:
    if depth < 2 and dice.random() < 0.25:
        return _class(dice, depth + 1)
    return dice.choice(_CLASS_ITEMS)
