"""Plots: axes with units, series that differ without colour, scales that keep the order."""

import re
from xml.etree import ElementTree

import pytest

from benchmarks.plots import Axis, Bar, Point, bar_plot, line_plot, short

SVG = "{http://www.w3.org/2000/svg}"
X, Y = Axis("bytes of a value", "log"), Axis("records per second", "log")


def at(x: float, y: float, low: float | None = None, high: float | None = None) -> Point:
    return Point(x, y, y if low is None else low, y if high is None else high)


def texts(svg: str) -> list[str]:
    return [str(one.text) for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


LINES = {
    "ours": [at(100, 900, 800, 1000), at(1000, 500)],
    "theirs": [at(100, 300), at(1000, 400)],
    "a third": [at(100, 100), at(1000, 100)],
}


def test_a_line_plot_names_its_title_axes_ticks_and_series() -> None:
    shown = texts(line_plot("Throughput", X, Y, LINES))
    assert {"Throughput", X.label, Y.label, "100", "1000", *LINES} <= set(shown)


def test_series_differ_in_dashes_and_markers_as_well_as_in_colour() -> None:
    tree = ElementTree.fromstring(line_plot("Throughput", X, Y, LINES))
    strokes = [one for one in tree.iter(f"{SVG}path") if one.get("stroke-width") == "2"]
    assert len({(one.get("stroke"), one.get("stroke-dasharray")) for one in strokes}) == 3
    assert len({one.get("stroke-dasharray") for one in strokes}) == 3
    assert len(list(tree.iter(f"{SVG}circle"))) == 3  # two points and the legend
    assert len(list(tree.iter(f"{SVG}rect"))) == 3


def test_a_higher_value_is_drawn_higher_and_a_spread_is_drawn() -> None:
    svg = line_plot("Throughput", X, Y, {"ours": [at(100, 900, 800, 1000), at(1000, 500)]})
    first, second = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)[:2]
    assert float(first[0]) < float(second[0])
    assert float(first[1]) < float(second[1])
    assert len(re.findall(r'<path d="M[\d.]+ [\d.]+V[\d.]+" stroke="#', svg)) == 1


def test_percentiles_stretch_the_end() -> None:
    points = [at(percent, 10 + percent) for percent in (0, 50, 90, 99, 99.9)]
    axis = Axis("percentile", "percentile")
    svg = line_plot("Latency", axis, Axis("us", "log"), {"ours": points})
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', svg)[:5]]
    assert places == sorted(places)
    assert places[4] - places[3] == pytest.approx(places[3] - places[2], abs=0.2)
    assert {"50", "90", "99", "99.9"} <= set(texts(svg))


def test_bars_have_their_numbers_above_and_hatchings_of_their_own() -> None:
    bars = {"ours": [Bar("start", 0.6, 0.5, 0.7)], "theirs": [Bar("start", 4.2, 4.2, 4.2)]}
    svg = bar_plot("Start", Axis("seconds"), bars, "plot-1")
    assert {"Start", "seconds", "start", "0.6", "4.2", "ours", "theirs"} <= set(texts(svg))
    tree = ElementTree.fromstring(svg)
    assert [one.get("id") for one in tree.iter(f"{SVG}pattern")] == ["plot-1-0", "plot-1-1"]
    filled = [one for one in tree.iter(f"{SVG}rect") if "url" in str(one.get("fill"))]
    heights = [float(str(one.get("height"))) for one in filled]
    assert heights[0] < heights[1]


def test_a_logarithm_has_no_zero() -> None:
    with pytest.raises(ValueError, match="cannot show 0"):
        line_plot("Nothing", X, Y, {"ours": [at(100, 0)]})


def test_nothing_is_no_plot() -> None:
    with pytest.raises(ValueError, match="'Nothing' has no point"):
        line_plot("Nothing", X, Y, {"ours": []})
    with pytest.raises(ValueError, match="'Nothing' has no bar"):
        bar_plot("Nothing", Y, {}, "p")


@pytest.mark.parametrize(("x_scale", "y_scale"), [("linear", "linear"), ("log", "log")])
def test_one_point_is_a_plot(x_scale: str, y_scale: str) -> None:
    axes = {"linear": Axis("a"), "log": Axis("b", "log")}
    svg = line_plot("One", axes[x_scale], axes[y_scale], {"ours": [at(5, 7)]})
    assert "nan" not in svg
    assert {"5", "6"} & set(texts(svg))
    assert svg.count("<circle") == 2


def test_names_are_escaped() -> None:
    svg = line_plot("a < b & c", X, Y, {"<ours>": [at(1, 1)]})
    assert "a < b & c" in texts(svg)
    assert "<ours>" in texts(svg)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1000, "1000"), (10_000, "10 k"), (1_250_000, "1.25 M"), (99.9, "99.9")],
)
def test_numbers_of_axes_are_short(value: float, text: str) -> None:
    assert short(value) == text
