"""The long run: ``python -m tests.fuzz.run --seconds 600`` (``make fuzz`` runs it).

Every target gets its share of the time. An input that ends in a new way (another error, another
line of the parser) is mutated further, and ``--grow`` adds it to the corpus. A failure is
shortened, shown as hex, and makes the run fail; add it to the corpus with its repair, so that it
is tried for ever. Times are processor time.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from dataclasses import dataclass, field
from random import Random
from types import TracebackType

from tests.fuzz.mutation import mutated, random_edits
from tests.fuzz.targets import CORPUS, TARGETS, beginnings, corpus_of

HANG_SECONDS = 0.1
"""What the event loop may be held up by one input."""
_GROWN_SIZE_BYTES_MAX = 1024
_ENTRIES_MAX = 300
_Outcome = tuple[str, int]


@dataclass
class Found:
    """What a target's run has seen."""

    name: str
    inputs: int = 0
    accepted: int = 0
    slowest_seconds: float = 0.0
    slowest: bytes = b""
    outcomes: dict[_Outcome, bytes] = field(default_factory=dict[_Outcome, bytes])
    failures: dict[_Outcome, tuple[str, bytes]] = field(
        default_factory=dict[_Outcome, tuple[str, bytes]]
    )

    def __str__(self) -> str:
        slowest_ms = self.slowest_seconds * 1000
        summary = (
            f"{self.name}: {self.inputs} inputs, {self.accepted} accepted, "
            f"{len(self.outcomes)} outcomes, the slowest took {slowest_ms:.1f} ms, "
            f"{len(self.failures)} failures"
        )
        lines = [summary]
        lines += [f"    {what}: {content.hex()}" for what, content in self.failures.values()]
        return "\n".join(lines)


def attempt(name: str, content: bytes, found: Found) -> _Outcome:
    """Try one input; returns how it ended."""
    target = TARGETS[name]
    began = time.thread_time()
    outcome: _Outcome = ("accepted", 0)
    try:
        target.parse(content)
        found.accepted += 1
    except target.allowed as error:
        outcome = (type(error).__name__, _line(error.__traceback__))
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        outcome = (type(error).__name__, _line(error.__traceback__))
        found.failures.setdefault(outcome, (repr(error)[:200], content))
    seconds = time.thread_time() - began
    if seconds > found.slowest_seconds:
        found.slowest_seconds, found.slowest = seconds, content
    found.inputs += 1
    return outcome


def _line(traceback: TracebackType | None) -> int:
    line = 0
    while traceback is not None:
        line = line * 31 + traceback.tb_lineno
        traceback = traceback.tb_next
    return line % (1 << 31)


def fuzz(name: str, seconds: float, seed: int, inputs_max: int = sys.maxsize) -> Found:
    """Try mutations of a target's inputs for some time."""
    found, dice = Found(name), Random(f"{name} {seed}")
    pool = beginnings(name)
    for content in pool:
        found.outcomes.setdefault(attempt(name, content, found), content)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and found.inputs < inputs_max:
        for _ in range(200):
            content = mutated(dice.choice(pool), random_edits(dice, pool))
            outcome = attempt(name, content, found)
            if outcome not in found.outcomes:
                found.outcomes[outcome] = content
                pool.append(content)
    for outcome, (what, content) in found.failures.items():
        found.failures[outcome] = (what, _shortened(name, content, outcome))
    return found


def _shortened(name: str, content: bytes, outcome: _Outcome) -> bytes:
    """Leave out what the failure does not need."""
    size = max(1, len(content) // 2)
    while size:
        start = 0
        while start < len(content):
            shorter = content[:start] + content[start + size :]
            if attempt(name, shorter, Found(name)) == outcome:
                content = shorter
            else:
                start += size
        size //= 2
    return content


def grow(found: Found) -> int:
    """Add what ended in new ways to the corpus; returns how much."""
    kept = corpus_of(found.name)
    known = {attempt(found.name, one, Found(found.name)) for one in beginnings(found.name)}
    new = [
        content
        for outcome, content in found.outcomes.items()
        if outcome not in known and len(content) <= _GROWN_SIZE_BYTES_MAX
    ][: max(0, _ENTRIES_MAX - len(kept))]
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{found.name}.txt").write_text("".join(f"{one.hex()}\n" for one in [*kept, *new]))
    return len(new)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run targets, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=[*TARGETS], action="append")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--grow", action="store_true", help="add new outcomes to the corpus")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    names = given.target or [*TARGETS]
    failed = False
    for name in names:
        found = fuzz(name, given.seconds / len(names), given.seed)
        say(str(found))
        failed |= bool(found.failures) or found.slowest_seconds > HANG_SECONDS
        if found.slowest_seconds > HANG_SECONDS:
            say(f"    slow: {found.slowest[:200].hex()}")
        if given.grow:
            say(f"    {grow(found)} inputs added to the corpus")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
