"""Reads the tables."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode


def rows(table: str) -> list[tuple[ErrorCode, str, str]]:
    """(code, answer, reaction) of a whole table."""
    lines = [line for line in table.splitlines() if line and not line.startswith("#")]
    answers = lines[0].split()
    found: list[tuple[ErrorCode, str, str]] = []
    reactions: list[str] = []
    for line in lines[1:]:
        if line.startswith(" "):
            for name in line.split():
                pairs = zip(answers, reactions, strict=True)
                found += [(ErrorCode[name], answer, reaction) for answer, reaction in pairs]
        else:
            reactions = line.split()
    return found
