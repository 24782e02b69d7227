"""A workload: a name, what it measures, its figures with their targets, and a function.

A round is a mapping from a measure's name to its value. A figure is a measure, or one measure over
another of the same round: both sides of a comparison ran a moment apart, so that
disturbances affect both, and the ratio is taken before the median.
"""

from __future__ import annotations

import math
import operator
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from .plots import Axis

Round = Mapping[str, float]
Better = Literal["higher", "lower", ""]
_HIGHER_IS_BETTER: Final = frozenset({"records/s", "x 1,000 records/s", "MB/s", "M/s", "1/s"})
_LOWER_IS_BETTER: Final = frozenset(
    {"s", "ms", "us", "s/GB", "us/record", "us/request", "MB", "KB", "%", "records"}
)
_ROUNDS_MIN: Final = 2
_TOUCHED_AT_ONCE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of the report.

    Attributes:
        name: of the row.
        unit: of the value; ``x`` for a ratio.
        of: the measure that is shown.
        per: the measure of the same round that it is divided by; None shows it as it is.
        at_least: target: the median must not be below it.
        at_most: target: the median must not be above it.
        good: which direction is better, where neither the target nor the unit says so.
    """

    name: str
    unit: str
    of: str
    per: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    good: Better = ""

    def __post_init__(self) -> None:
        if self.at_least is not None and self.at_most is not None:
            raise ValueError(f"figure {self.name!r} has two targets; make it two figures")

    @property
    def has_target(self) -> bool:
        """Whether the figure has a target."""
        return self.at_least is not None or self.at_most is not None

    @property
    def better(self) -> Better:
        """Which direction is better; nothing if a change says neither."""
        if self.good:
            return self.good
        if self.at_least is not None or self.unit in _HIGHER_IS_BETTER:
            return "higher"
        return "lower" if self.at_most is not None or self.unit in _LOWER_IS_BETTER else ""

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that it needs."""
        return (self.of,) if self.per is None else (self.of, self.per)

    def value(self, measures: Round) -> float:
        """The figure of one round.

        Raises:
            KeyError: the round lacks a measure that the figure names.
        """
        value = measures[self.of]
        return value if self.per is None else value / measures[self.per]

    def is_met_by(self, median: float) -> bool:
        """Whether a median reaches the target; a figure without one is always met."""
        for bound, reaches in ((self.at_least, operator.ge), (self.at_most, operator.le)):
            if bound is not None and not reaches(median, bound):
                return False
        return True


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot of the report: which measures it shows, and where.

    Attributes:
        title: above it.
        x: the axis of numbers; None makes bars, whose positions are names.
        y: the axis of the measures.
        series: for each series its points: position (a number, or a name under a bar), measure.
    """

    title: str
    x: Axis | None
    y: Axis
    series: Mapping[str, Sequence[tuple[float | str, str]]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The argument of a workload's function.

    Attributes:
        rounds: how many rounds to do; each side runs once per round.
        scale: factor for counts; the targets are for 1.
        folder: an empty directory for the run, removed afterwards.
        say: reports progress.
        until: when to stop (`time.monotonic`), though not before the second round is done.
        notes: gets what the report has to say about the run, besides figures.
        left_out: gets what cannot be measured here: what the names of its measures begin with, and
            the reason.
    """

    rounds: int
    scale: float
    folder: Path
    say: Callable[[str], None]
    until: float = math.inf
    notes: list[str] = field(default_factory=list[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])

    def numbers(self) -> Iterator[int]:
        """The numbers of the rounds, from 1, as long as there is time."""
        for number in range(1, self.rounds + 1):
            if number > _ROUNDS_MIN and time.monotonic() > self.until:
                self.notes.append(f"time was over after {number - 1} of {self.rounds} rounds")
                return
            yield number

    def scaled(self, count: int) -> int:
        """A count at this run's scale, at least 1."""
        return max(1, round(count * self.scale))

    @contextmanager
    def fresh_folder(self, written_bytes: int = 0) -> Generator[Path]:
        """An empty directory during a block; its files are removed, with their dirty pages.

        Args:
            written_bytes: how much will be written there. A file of that size is written and
                removed first: a virtual machine gives idle memory back to its host, and gets it
                again at a fifth of the speed, which a broker should not be charged for.
        """
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        if written_bytes:
            touch_memory(folder / "touched", written_bytes)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def interleaved(self, **sides: Callable[[], Round]) -> Iterator[Round]:
        """Run each side once per round, in the given order: A B A B, never A A B B.

        A side returns its measures; a round has those of all sides.
        """
        for number in self.numbers():
            measures: dict[str, float] = {}
            for name, side in sides.items():
                self.say(f"round {number} of {self.rounds}: {name.replace('_', ' ')}")
                measures.update(side())
            yield measures


def touch_memory(path: Path, size_bytes: int) -> None:
    """Write a file of that size and remove it, so that the machine has the memory for its pages."""
    chunk = bytes(_TOUCHED_AT_ONCE_BYTES)
    with path.open("wb", buffering=0) as file:
        for _ in range(-(-size_bytes // len(chunk))):
            file.write(chunk)
    path.unlink()


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One declaration: everything the runner and the report know about a workload.

    Attributes:
        name: as in ``run NAME``.
        measures: what is measured, and how, in a sentence or two.
        function: does the rounds, yielding each one's measures.
        figures: the rows of its report.
        one_is_enough: only one of the figures named here has to reach its target.
        rounds: default number.
        plots: what the report shows beside the figures.
        seconds: about how long it takes at scale 1, for the progress bar of a suite.
        needs: peers without which nothing of it can be measured.
    """

    name: str
    measures: str
    function: Callable[[Run], Iterator[Round]]
    figures: Sequence[Figure]
    one_is_enough: frozenset[str] = frozenset()
    rounds: int = 3
    plots: Sequence[Plot] = ()
    seconds: float = 0.0
    needs: frozenset[str] = frozenset()
