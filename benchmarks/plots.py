"""Plots as SVG: lines with their spread, distributions over percentiles, and bars.

An SVG from here needs nothing else: no script, no font, no style sheet. Series differ in colour,
dash and marker (bars in hatching and in the number above them): a plot is read without colour.
Text is text, so it can be searched and read aloud. Axes and text take the colour of their
surroundings, so a plot fits light pages as well as dark ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

Scale = Literal["linear", "log", "percentile"]
"""`percentile` stretches the end: 99, 99.9 and 99.99 are equally far from each other."""

WIDTH: Final = 640
HEIGHT: Final = 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 16, 34, 52
_LEGEND_ROW: Final = 20
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#a0529c", "#8a6d00", "#56707f")
_DASHES: Final = ("", "7 4", "2 4", "10 3 2 3", "1 3", "14 4")
_TICKS_AT_POINTS_MAX: Final = 8
_PERCENTILES: Final = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999)
_GAP_OF_LABELS: Final = 34
_LOG_TICKS_FROM: Final = 4


@dataclass(frozen=True)
class Axis:
    """An axis: its label, which names the unit, and its scale."""

    label: str
    scale: Scale = "linear"


@dataclass(frozen=True)
class Point:
    """A value with its spread; without a spread, both ends are the value."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Bar:
    """A bar with its spread; `group` is the name below it."""

    group: str
    y: float
    low: float
    high: float


def short(value: float) -> str:
    """A number for an axis: ``2 M``, ``10 k``, ``0.5``."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == ' k' else size):.3g}{letter}"
    return f"{value:.4g}"


# --- scales --------------------------------------------------------------------------------------


def _stretched(value: float, scale: Scale) -> float:
    if scale == "log":
        return math.log10(value)
    if scale == "percentile":
        return -math.log10(1 - min(value, 99.9999) / 100)
    return value


def _log_ticks(low: float, high: float) -> list[float]:
    digits = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [digit * 10.0**power for power in range(first, last + 1) for digit in digits]


def _linear_ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= raw)
    first = math.floor(low / step)
    return [number * step for number in range(first, math.ceil(high / step) + 1)]


@dataclass(frozen=True)
class _Range:
    """An axis on paper: from the lowest to the highest value, from one pixel to another."""

    low: float
    high: float
    scale: Scale
    first: float
    last: float

    def at(self, value: float) -> float:
        low, high = _stretched(self.low, self.scale), _stretched(self.high, self.scale)
        share = (_stretched(value, self.scale) - low) / (high - low)
        return self.first + share * (self.last - self.first)

    def ticks(self) -> list[float]:
        if self.scale == "percentile":
            found: Sequence[float] = _PERCENTILES
        elif self.scale == "log" and self.high / self.low > _LOG_TICKS_FROM:
            found = _log_ticks(self.low, self.high)
        else:
            found = _linear_ticks(self.low, self.high)
        slack = 1e-9 * abs(self.high)
        return [one for one in found if self.low - slack <= one <= self.high + slack]


def _range(values: Sequence[float], scale: Scale, first: float, last: float) -> _Range:
    """The range that has all values.

    Raises:
        ValueError: there is no value, or one that a logarithm does not have.
    """
    low, high = min(values), max(values)
    if scale == "linear":
        ticks = _linear_ticks(0.0, high if high > 0 else 1.0)
        return _Range(0.0, ticks[-1], scale, first, last)
    if scale == "log":
        if low <= 0:
            raise ValueError(f"a logarithmic axis cannot show {low:g}")
        return _Range(low / 1.25, high * 1.25, scale, first, last)
    return _Range(low, high if high > low else low + 1, scale, first, last)


# --- pieces --------------------------------------------------------------------------------------


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _marker(number: int, x: float, y: float, more: str = "") -> str:
    """Circle, square, triangle, diamond, cross, and the triangle upside down."""
    paths: tuple[Callable[[], str], ...] = (
        lambda: f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
        lambda: f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"',
        lambda: f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"',
        lambda: f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"',
        lambda: f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke-width="2"',
        lambda: f'<path d="M{x:.1f} {y + 5:.1f}l5 -9h-10z"',
    )
    colour = _COLOURS[number % len(_COLOURS)]
    shape = paths[number % len(paths)]()
    return f'{shape} fill="{colour}" stroke="{colour}">{more}</{shape[1:].split(" ", 1)[0]}>'


def _frame(title: str, height: float, body: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="12" '
        'fill="currentColor">'
    )
    shown = _text(WIDTH / 2, 18, title, more=' font-size="14" font-weight="600"')
    return "\n".join([head, f"<title>{escape(title)}</title>", shown, *body, "</svg>"])


def _legend(names: Sequence[str], sample: Callable[[int, float, float], str]) -> list[str]:
    """A row for each name below the plot: a sample of how it is drawn, and the name."""
    rows: list[str] = []
    for number, name in enumerate(names):
        y = HEIGHT + 8 + number * _LEGEND_ROW
        rows += [sample(number, _LEFT, y), _text(_LEFT + 52, y + 4, name, "start")]
    return rows


def _axes(x: _Range, x_ticks: Sequence[tuple[float, str]], y: _Range, labels: Axes) -> list[str]:
    faint = 'stroke="currentColor" stroke-opacity="0.18"'
    body: list[str] = []
    for value in y.ticks():
        at = y.at(value)
        body.append(f'<path d="M{x.first:.1f} {at:.1f}H{x.last:.1f}" {faint}/>')
        body.append(_text(x.first - 6, at + 4, short(value), "end"))
    for at, text in x_ticks:
        body.append(f'<path d="M{at:.1f} {y.first:.1f}v5" stroke="currentColor"/>')
        body.append(_text(at, y.first + 19, text))
    edge = f"M{x.first:.1f} {y.last:.1f}V{y.first:.1f}H{x.last:.1f}"
    body.append(f'<path d="{edge}" fill="none" stroke="currentColor"/>')
    middle = (y.first + y.last) / 2
    body.append(_text((x.first + x.last) / 2, y.first + 40, labels[0]))
    body.append(_text(16, middle, labels[1], more=f' transform="rotate(-90 16 {middle:.1f})"'))
    return body


Axes = tuple[str, str]
"""The labels of x and y."""


def _spaced(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The ticks without those that would be written over the one before."""
    kept: list[tuple[float, str]] = []
    for at, text in sorted(ticks):
        if not kept or at - kept[-1][0] >= _GAP_OF_LABELS:
            kept.append((at, text))
    return kept


# --- plots ---------------------------------------------------------------------------------------


def line_plot(title: str, x: Axis, y: Axis, lines: Mapping[str, Sequence[Point]]) -> str:
    """One line for each series, with a vertical bar for the spread of each point.

    Raises:
        ValueError: there is no point, or a logarithmic axis has one that is not above 0.
    """
    points = [point for some in lines.values() for point in some]
    if not points:
        raise ValueError(f"the plot {title!r} has no point")
    xs = sorted({point.x for point in points})
    across = _range(xs, x.scale, _LEFT, WIDTH - _RIGHT)
    spreads = [value for point in points for value in (point.low, point.high)]
    up = _range(spreads, y.scale, HEIGHT - _BOTTOM, _TOP)
    own_ticks = len(xs) <= _TICKS_AT_POINTS_MAX and x.scale != "percentile"
    ticks = [(across.at(one), short(one)) for one in (xs if own_ticks else across.ticks())]
    body = _axes(across, _spaced(ticks), up, (x.label, y.label))
    for number, (name, some) in enumerate(lines.items()):
        body += _line(number, name, sorted(some, key=lambda one: one.x), across, up)

    def sample(number: int, left: float, at: float) -> str:
        return _stroke(number, f"M{left} {at:.1f}h40") + _marker(number, left + 20, at)

    body += _legend(list(lines), sample)
    return _frame(title, HEIGHT + len(lines) * _LEGEND_ROW + 4, body)


def _stroke(number: int, path: str) -> str:
    dash = _DASHES[number % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    colour = _COLOURS[number % len(_COLOURS)]
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def _line(number: int, name: str, points: Sequence[Point], x: _Range, y: _Range) -> list[str]:
    places = [(x.at(point.x), y.at(point.y)) for point in points]
    body = [_stroke(number, "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places))]
    colour = _COLOURS[number % len(_COLOURS)]
    for point, (across, up) in zip(points, places, strict=True):
        if point.high > point.low:
            top, bottom = y.at(point.high), y.at(point.low)
            body.append(f'<path d="M{across:.1f} {top:.1f}V{bottom:.1f}" stroke="{colour}"/>')
        says = f"{name}: {short(point.x)}, {short(point.y)}"
        body.append(_marker(number, across, up, f"<title>{escape(says)}</title>"))
    return body


def bar_plot(title: str, y: Axis, bars: Mapping[str, Sequence[Bar]], prefix: str) -> str:
    """Groups of bars, one bar of each series in a group, with the number above it.

    Args:
        title: above the plot.
        y: the axis; a logarithmic one begins below the lowest bar.
        bars: by series.
        prefix: makes the names of hatchings unique on a page with several plots.

    Raises:
        ValueError: there is no bar, or a logarithmic axis has one that is not above 0.
    """
    every = [bar for some in bars.values() for bar in some]
    if not every:
        raise ValueError(f"the plot {title!r} has no bar")
    groups = list(dict.fromkeys(bar.group for bar in every))
    values = [value for bar in every for value in (bar.low, bar.high)]
    up = _range(values, y.scale, HEIGHT - _BOTTOM, _TOP + 14)
    across = _Range(0, len(groups), "linear", _LEFT, WIDTH - _RIGHT)
    ticks = [(across.at(number + 0.5), group) for number, group in enumerate(groups)]
    body = [_hatchings(prefix, len(bars)), *_axes(across, ticks, up, ("", y.label))]
    width = 0.8 / len(bars)
    for number, some in enumerate(bars.values()):
        for bar in some:
            left = groups.index(bar.group) + 0.1 + number * width
            edges = across.at(left), across.at(left + width * 0.92)
            body += _bar(bar, edges, up, _filling(prefix, number))

    def sample(number: int, left: float, at: float) -> str:
        size = f'x="{left}" y="{at - 7:.1f}" width="40" height="14"'
        return f"<rect {size} {_filling(prefix, number)}/>"

    body += _legend(list(bars), sample)
    return _frame(title, HEIGHT + len(bars) * _LEGEND_ROW + 4, body)


def _filling(prefix: str, number: int) -> str:
    colour = _COLOURS[number % len(_COLOURS)]
    return f'fill="url(#{escape(prefix)}-{number})" stroke="{colour}"'


def _hatchings(prefix: str, count: int) -> str:
    """The first series is solid; the others have stripes at different angles and distances."""
    found: list[str] = []
    for number in range(count):
        colour, size, angle = _COLOURS[number % len(_COLOURS)], 5 + 2 * (number // 4), 45 * number
        width = size if number == 0 else size / 2
        found.append(
            f'<pattern id="{escape(prefix)}-{number}" width="{size}" height="{size}" '
            f'patternUnits="userSpaceOnUse" patternTransform="rotate({angle})">'
            f'<rect width="{width}" height="{size}" fill="{colour}"/></pattern>'
        )
    return f"<defs>{''.join(found)}</defs>"


def _bar(bar: Bar, edges: tuple[float, float], y: _Range, filling: str) -> list[str]:
    left, right = edges
    top, middle = y.at(bar.y), (left + right) / 2
    size = f'width="{right - left:.1f}" height="{max(0.0, y.first - top):.1f}"'
    body = [f'<rect x="{left:.1f}" y="{top:.1f}" {size} {filling}/>']
    highest = top
    if bar.high > bar.low:
        highest = y.at(bar.high)
        line = f"M{middle:.1f} {highest:.1f}V{y.at(bar.low):.1f}"
        body.append(f'<path d="{line}" stroke="currentColor"/>')
    return [*body, _text(middle, highest - 4, short(bar.y))]
