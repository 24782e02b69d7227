"""Figures: from the measures of rounds to medians, spread, and targets met or missed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results import Result, Spread, judge
from benchmarks.workload import Figure, Round, Workload


def workload_of(*figures: Figure, one_is_enough: frozenset[str] = frozenset()) -> Workload:
    return Workload(
        name="fake",
        measures="Nothing.",
        function=lambda _: iter(()),
        figures=figures,
        one_is_enough=one_is_enough,
    )


def outcome(workload: Workload, *rounds: Round) -> Result:
    return Result(workload=workload, seconds=1.0, rounds=rounds, figures=judge(workload, rounds))


def test_a_ratio_is_taken_within_each_round_before_the_median() -> None:
    ratio = Figure(name="ratio", unit="x", of="a", per="b")
    rounds = [{"a": 1.0, "b": 1.0}, {"a": 30.0, "b": 10.0}, {"a": 2.0, "b": 1.0}]
    (measured,) = judge(workload_of(ratio), rounds)
    assert measured.spread == Spread(median=2.0, low=1.0, high=3.0)
    assert measured.is_met is None


@pytest.mark.parametrize(
    ("at_least", "at_most", "median", "is_met"),
    [
        (2.0, None, 2.0, True),
        (2.0, None, 1.9, False),
        (None, 2.0, 2.0, True),
        (None, 2.0, 2.1, False),
    ],
)
def test_the_median_decides_whether_a_target_is_met(
    at_least: float | None, at_most: float | None, median: float, is_met: bool
) -> None:
    figure = Figure(name="f", unit="s", of="a", at_least=at_least, at_most=at_most)
    result = outcome(workload_of(figure), {"a": 0.0}, {"a": median}, {"a": 9.0})
    assert result.figures[0].is_met is is_met
    assert result.is_met is is_met


@pytest.mark.parametrize(
    ("first", "second", "is_met"), [(5, 5, True), (5, 0, True), (0, 5, True), (0, 0, False)]
)
def test_of_alternative_targets_one_is_enough(first: float, second: float, is_met: bool) -> None:
    figures = [
        Figure(name="first", unit="", of="a", at_least=1),
        Figure(name="second", unit="", of="b", at_least=1),
    ]
    workload = workload_of(*figures, one_is_enough=frozenset({"first", "second"}))
    assert outcome(workload, {"a": first, "b": second}).is_met is is_met


def test_an_alternative_met_does_not_excuse_another_target_missed() -> None:
    figures = [
        Figure(name="first", unit="", of="a", at_least=1),
        Figure(name="second", unit="", of="a", at_least=9),
        Figure(name="required", unit="", of="b", at_most=1),
    ]
    workload = workload_of(*figures, one_is_enough=frozenset({"first", "second"}))
    assert outcome(workload, {"a": 5, "b": 1}).is_met
    assert not outcome(workload, {"a": 5, "b": 2}).is_met


def test_a_figure_has_one_target_at_most() -> None:
    with pytest.raises(ValueError, match="two targets"):
        Figure(name="both", unit="", of="a", at_least=1, at_most=2)


def test_a_round_without_a_named_measure_is_refused() -> None:
    with pytest.raises(KeyError, match="missing"):
        judge(workload_of(Figure(name="f", unit="", of="missing")), [{"a": 1.0}])


def test_no_rounds_are_no_figure() -> None:
    with pytest.raises(ValueError, match="no round"):
        judge(workload_of(Figure(name="f", unit="", of="a")), [])


def test_a_workload_that_failed_is_not_met() -> None:
    result = Result(workload=workload_of(), seconds=1.0, error="RuntimeError: no")
    assert not result.is_met


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9))
def test_a_median_lies_within_its_spread(values: list[float]) -> None:
    spread = Spread.of(values)
    assert spread.low <= spread.median <= spread.high
    assert {spread.low, spread.high} <= set(values)
