"""Damage to a data directory between two runs of the broker, and what has to survive it."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from minikafka.protocol.records import iter_batches

PAGE_SIZE_BYTES = 4096


class StoredBatch(NamedTuple):
    """Where a batch lies in a segment."""

    start: int
    end: int
    offsets: range


def batches_in(path: Path) -> list[StoredBatch]:
    """The batches of an intact segment."""
    return [
        StoredBatch(
            position, position + header.size_bytes, range(header.base_offset, header.next_offset)
        )
        for position, header in iter_batches(path.read_bytes())
    ]


@dataclass(slots=True)
class Damage:
    """What was done to a directory.

    Attributes:
        steps: in words, to repeat it.
        touched: for each segment, the byte ranges that are not what they were.
        blind_size_bytes: how many bytes behind zeros cannot be searched for a batch: up to the next
            index entry, and where the index had not been written, up to the end.
    """

    blind_size_bytes: int
    steps: list[str] = field(default_factory=list[str])
    touched: dict[Path, list[range]] = field(default_factory=dict[Path, list[range]])

    def note(self, path: Path, what: str, first: int, end: int) -> None:
        """Bytes [first, end) of a file are damaged or missing."""
        self.steps.append(f"{path.parent.name}/{path.name}: {what}")
        self.touched.setdefault(path, []).append(range(first, end))

    @property
    def has_hit_checkpoints(self) -> bool:
        """Whether the end of a log can no longer be determined."""
        return any(path.name.endswith("-offset-checkpoint") for path in self.touched)

    def hits(self, path: Path, batch: StoredBatch) -> bool:
        """Whether a batch's bytes were touched, or those that say where it begins."""
        is_blind = path.with_suffix(".index") in self.touched
        return any(
            one.start < batch.end and (is_blind or batch.start < one.stop)
            for one in self.touched.get(path, ())
        )


def flip_bit(path: Path, dice: random.Random, damage: Damage) -> None:
    content = bytearray(path.read_bytes())
    if not content:
        return
    position, bit = dice.randrange(len(content)), dice.randrange(8)
    content[position] ^= 1 << bit
    path.write_bytes(content)
    damage.note(path, f"bit {bit} of byte {position} flipped", position, position + 1)


def cut_tail(path: Path, dice: random.Random, damage: Damage) -> None:
    content = path.read_bytes()
    if not content:
        return
    size = dice.randrange(len(content))
    path.write_bytes(content[:size])
    damage.note(path, f"cut from {len(content)} to {size} bytes", size, len(content))


def zero_page(path: Path, dice: random.Random, damage: Damage) -> None:
    """A page reads as zeros."""
    content = bytearray(path.read_bytes())
    if not content:
        return
    start = dice.randrange(len(content)) // PAGE_SIZE_BYTES * PAGE_SIZE_BYTES
    end = min(len(content), start + PAGE_SIZE_BYTES)
    content[start:end] = bytes(end - start)
    path.write_bytes(content)
    damage.note(path, f"zeros from {start} to {end}", start, end + damage.blind_size_bytes)


def append_garbage(path: Path, dice: random.Random, damage: Damage) -> None:
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(dice.randbytes(dice.randint(1, 300)))
    damage.note(path, "garbage appended", size, size + 300)


def remove(path: Path, dice: random.Random, damage: Damage) -> None:
    size = path.stat().st_size
    path.unlink()
    damage.note(path, "removed", 0, size)


Stroke = Callable[[Path, random.Random, Damage], None]
ON_SEGMENTS: tuple[Stroke, ...] = (flip_bit, cut_tail, zero_page, append_garbage)
ON_OTHERS: tuple[Stroke, ...] = (*ON_SEGMENTS, remove)

LEFTOVERS = (
    "00000000000000000000.log.cleaned",
    "00000000000000000000.index.cleaned",
    "00000000000000000003.log.deleted",
    "00000000000000000003.index.deleted",
    "00000000000000000000.log.rewrite",
    "00000000000000009999.snapshot",
    "00000000000000009999.index",
    "leader-epoch-checkpoint.tmp",
    "00000000000000000000.index.tmp",
    "notes.txt",
    "copy of.log.txt",
    "whatever.quarantine",
)
"""Files that a crash, or a person, may leave in a partition's directory."""


def leave_behind(directory: Path, dice: random.Random, damage: Damage) -> None:
    """Leave a file with garbage."""
    path = directory / dice.choice(LEFTOVERS)
    path.write_bytes(dice.randbytes(dice.randint(0, 200)))
    damage.note(path, "left behind", 0, 0)


def limit_files(pid: int, size_bytes: int) -> None:
    """Let no file of a running process grow beyond a size, as on a full disk."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))
