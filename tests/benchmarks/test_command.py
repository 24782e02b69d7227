"""The command: what it lists, what it prints for people and machines, how it exits."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from benchmarks import __main__ as command
from benchmarks.catalogue import WORKLOADS
from benchmarks.report import number
from benchmarks.workload import Figure, Round, Run, Workload


def fast(run: Run) -> Iterator[Round]:
    return run.interleaved(minikafka=lambda: {"ours": 30.0}, mock=lambda: {"theirs": 20.0})


def fake(name: str, at_least: float) -> Workload:
    return Workload(
        name=name,
        measures="Nothing at all.",
        function=fast,
        figures=(
            Figure(name="ratio", unit="x", of="ours", per="theirs", at_least=at_least),
            Figure(name="rate", unit="records/s", of="ours"),
        ),
    )


@pytest.fixture(autouse=True)
def fake_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WORKLOADS", (fake("good", 1.25), fake("bad", 2.0)))


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command.main, arguments)


def test_list_names_each_workload_with_its_target() -> None:
    result = call("list")
    assert result.exit_code == 0
    assert "good" in result.output
    assert "ratio >= 1.25 x" in result.output


def test_list_prints_json_for_machines() -> None:
    rows = json.loads(call("list", "--json").stdout)
    assert [row["name"] for row in rows] == ["good", "bad"]
    assert rows[1]["targets"] == {"ratio": ">= 2 x"}


def test_a_run_that_meets_its_targets_exits_with_0_and_reports_on_stderr() -> None:
    result = call("run", "good", "--rounds", "2")
    assert result.exit_code == 0
    assert "every target met" in result.stdout
    assert result.stderr.splitlines()[0] == "good: round 1 of 2: minikafka"
    assert len(result.stderr.splitlines()) == 4


def test_a_missed_target_exits_with_1_and_is_named() -> None:
    result = call("run", "all", "--scale", "0.5")
    assert result.exit_code == 1
    assert "missed: bad" in result.stdout
    assert "counts multiplied by 0.5" in result.stdout


def test_json_has_medians_targets_rounds_and_the_environment() -> None:
    result = call("run", "good", "bad", "good", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["is_met"] is False
    assert [one["name"] for one in report["workloads"]] == ["good", "bad"]
    good = report["workloads"][0]
    assert good["rounds"] == [{"ours": 30.0, "theirs": 20.0}] * 3
    assert good["figures"][0] == {
        "name": "ratio",
        "unit": "x",
        "median": 1.5,
        "min": 1.5,
        "max": 1.5,
        "at_least": 1.25,
        "at_most": None,
        "is_met": True,
        "better": "higher",
    }
    assert {"processor", "cores", "kernel", "python", "packages"} <= set(report["environment"])


def test_an_unknown_workload_is_refused_with_the_names_there_are() -> None:
    result = call("run", "coffee")
    assert result.exit_code == 2
    assert "no workload coffee" in result.stderr
    assert "good, bad or all" in result.stderr


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1234567.8, "1,234,568"), (99.96, "99.96"), (2.5, "2.50"), (0.12345, "0.123"), (0, "0")],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


def test_real_workloads_have_names_of_their_own_and_say_what_they_measure() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
    for workload in WORKLOADS:
        assert workload.measures.endswith(".")
        figures = {figure.name for figure in workload.figures}
        assert len(figures) == len(workload.figures)
        assert workload.one_is_enough <= figures
