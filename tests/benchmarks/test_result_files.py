"""Result files: as a table, as a page, compared; and what is wrong with one."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks.__main__ import main
from benchmarks.comparison import compare
from benchmarks.document import marks
from benchmarks.markdown import as_markdown
from benchmarks.page import as_page

ENVIRONMENT = {"processor": "Z80", "cores": "2 of 2", "python": "CPython 3.11", "command": "x"}


def figure(name: str, median: float, spread: float = 0.0, **more: Any) -> dict[str, Any]:
    low, high = median - spread, median + spread
    known = {"unit": "x", "at_least": None, "at_most": None, "is_met": None, "better": "higher"}
    return {"name": name, "median": median, "min": low, "max": high, **known, **more}


def results(*figures: dict[str, Any], **more: Any) -> dict[str, Any]:
    workload: dict[str, Any] = {
        "name": "record size",
        "measures": "A few <records>.",
        "error": None,
        "seconds": 3.2,
        "others_cpus": 0.01,
        "rounds": [{}, {}],
        "figures": list(figures),
        "missing": [],
        "plots": [],
        "notes": [],
    }
    environment = more.pop("environment", ENVIRONMENT)
    found = {"environment": environment, "scale": 1.0, "workloads": [workload]}
    workload.update({key: more.pop(key) for key in list(more) if key in workload})
    return {**found, **more}


def written(folder: Path, name: str, found: object) -> str:
    path = folder / name
    path.write_text(found if isinstance(found, str) else json.dumps(found), encoding="utf-8")
    return str(path)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments])


# --- compared ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "better", "verdict"),
    [
        ((100, 2), (80, 2), "higher", "regression"),
        ((100, 2), (80, 2), "lower", "better"),
        ((100, 2), (80, 2), "", "changed"),
        ((100, 2), (120, 2), "lower", "regression"),
        ((100, 2), (120, 2), "higher", "better"),
        ((100, 15), (80, 6), "higher", "same"),  # the rounds differ as much as the files
        ((100, 1), (97, 1), "higher", "same"),  # apart, but within the threshold
        ((0, 0), (3, 0), "lower", "regression"),  # records lost, for instance
    ],
)
def test_a_regression_is_beyond_the_threshold_and_the_spread(
    old: tuple[float, float], new: tuple[float, float], better: str, verdict: str
) -> None:
    before = results(figure("rate", *old, better=better))
    after = results(figure("rate", *new, better=better))
    (row,) = compare(before, after, 0.05).rows
    assert row.verdict == verdict
    assert row.ratio == (new[0] / old[0] if old[0] else None)


def test_the_command_exits_with_1_for_a_regression_and_names_it(tmp_path: Path) -> None:
    old = written(tmp_path, "old", results(figure("rate", 100, 1), figure("p50", 10, 1)))
    new = written(tmp_path, "new", results(figure("rate", 50, 1), figure("p50", 10, 1)))
    worse = call(old, new)
    assert worse.exit_code == 1
    assert "regression" in worse.stdout
    assert "0.500" in worse.stdout
    assert "1 of 2 figures failed or are worse by more than 5%" in " ".join(worse.stdout.split())
    assert call(old, old).exit_code == 0
    assert call(old, new, "--threshold", "0.6").exit_code == 0


def test_json_has_a_row_for_each_figure(tmp_path: Path) -> None:
    old = written(tmp_path, "old", results(figure("rate", 100, 1)))
    new = written(tmp_path, "new", results(figure("rate", 50, 1), figure("p99", 3)))
    answer = call(old, new, "--json")
    assert answer.exit_code == 1
    found = json.loads(answer.stdout)
    assert found["is_worse"] is True
    assert [(one["figure"], one["verdict"]) for one in found["figures"]] == [
        ("rate", "regression"),
        ("p99", "new"),
    ]
    assert found["figures"][0]["old"] == {"median": 100, "low": 99, "high": 101}
    assert found["figures"][0]["ratio"] == 0.5


def test_what_differs_about_the_machine_is_named(tmp_path: Path) -> None:
    other = {**ENVIRONMENT, "cores": "8 of 8", "command": "y"}
    old = written(tmp_path, "old", results(figure("rate", 1)))
    new = written(tmp_path, "new", results(figure("rate", 1), environment=other, scale=0.1))
    shown = call(old, new).stdout
    assert "different cores: 2 of 2 -> 8 of 8" in shown
    assert "different scale: 1 -> 0.1" in shown
    assert "different command" not in shown


def test_a_workload_that_fails_now_is_worse_and_a_missing_peer_is_not() -> None:
    before = results(figure("rate", 100))
    failed = compare(before, results(error="RuntimeError: no"))
    assert failed.is_worse
    assert failed.rows[0].reason == "RuntimeError: no"
    absent = {"name": "rate", "unit": "x", "reason": "Apache Kafka: there is no java"}
    missing = compare(before, results(missing=[absent]))
    assert not missing.is_worse
    assert missing.rows[0].verdict == "not measured"
    assert "no java" in missing.rows[0].reason


# --- shown ---------------------------------------------------------------------------------------

PLOT = {
    "title": "Throughput over size",
    "x": {"label": "bytes", "scale": "log"},
    "y": {"label": "records per second", "scale": "log"},
    "series": [{"name": "ours", "points": [{"at": 100, "median": 5.0, "min": 4.0, "max": 6.0}]}],
}
BARS = {
    "title": "Start",
    "x": None,
    "y": {"label": "seconds", "scale": "linear"},
    "series": [{"name": "ours", "points": [{"at": "start", "median": 0, "min": 0, "max": 0}]}],
}


def test_the_markdown_table_has_figures_targets_missing_ones_and_the_machine() -> None:
    absent = {"name": "p50", "unit": "us", "reason": "Apache Kafka: there is no java"}
    met = figure("rate", 1.5, 0.25, at_least=1.2, is_met=True)
    table = as_markdown(
        results(met, missing=[absent], peers={"Apache Kafka": "there is no java"}, scale=0.5)
    )
    assert "| rate | 1.50 x | 1.25 to 1.75 | >= 1.2, met |" in table
    assert "| p50 | missing | | Apache Kafka: there is no java |" in table
    assert "Measured on: Z80, 2 of 2, CPython 3.11." in table
    assert "Missing: Apache Kafka (there is no java)." in table
    assert "multiplied by 0.5" in table


def test_a_table_of_targets_leaves_out_the_rest() -> None:
    found = results(figure("rate", 2.0, at_least=1.2, is_met=True), figure("p50", 3.0))
    found["workloads"].append({**found["workloads"][0], "name": "rest", "figures": []})
    table = as_markdown(found, only_targets=True)
    assert "| rate |" in table
    assert "| p50 |" not in table
    assert "rest" not in table


def test_a_part_of_a_file_replaces_its_table_in_a_document(tmp_path: Path) -> None:
    file = written(tmp_path, "old", results(figure("rate", 1.5)))
    first, last = marks("record size")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{first}\nold\n{last}\n")
    arguments = (file, "--markdown", "--only", "record size", "--write", str(page))
    assert call(*arguments).exit_code == 0
    assert "| rate | 1.50 x |" in page.read_text()
    assert "old" not in page.read_text()
    page.write_text("nothing")
    refused = call(*arguments)
    assert refused.exit_code == 1
    assert f"{page}: the document needs {first}" in refused.stderr
    assert "the file has no part rest" in call(file, "--markdown", "--only", "rest").stderr


def test_the_page_needs_nothing_else() -> None:
    page = as_page(results(figure("rate", 1.5), plots=[PLOT, BARS]))
    assert "Throughput over size" in page
    assert page.count("<svg") == 2
    loads = ("<script", "<link", "src=", "@import", "url(http", "https:")
    assert not [word for word in loads if word in page]
    assert page.count("http:") == page.count('xmlns="http://www.w3.org/2000/svg"')
    assert "A few &lt;records&gt;." in page


def test_the_page_says_what_is_missing_noisy_short_or_failed() -> None:
    page = as_page(
        results(
            figure("rate", 1.5, at_least=2, is_met=False),
            peers={"Apache Kafka": "there is no java"},
            others_cpus=0.7,
            scale=0.1,
            error="RuntimeError: 3 records lost",
            notes=["time was over after 2 of 5 rounds"],
        )
    )
    assert "Apache Kafka is missing: there is no java" in page
    assert "processors busy during record size" in page
    assert "multiplied by 0.1" in page
    assert "It failed: RuntimeError: 3 records lost" in page
    assert "time was over after 2 of 5 rounds" in page
    assert "&gt;= 2, missed" in page


def test_one_file_becomes_a_page_or_a_table(tmp_path: Path) -> None:
    file = written(tmp_path, "old", results(figure("rate", 1.5)))
    page = tmp_path / "page.html"
    answer = call(file, "--html", str(page), "--markdown")
    assert answer.exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert answer.stdout == as_markdown(results(figure("rate", 1.5)))
    assert "name a second file" in call(file).stderr
    assert "show one file" in call(file, file, "--markdown").stderr


# --- what is wrong with a file -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON: line 1, column 2"),
        ("[]", "it is not an object"),
        ('{"environment": {}}', "'scale' is missing"),
        ('{"environment": {}, "scale": 1, "workloads": [3]}', "workload 0: it is not an object"),
        ('{"environment": {}, "scale": 1, "workloads": [{}]}', "workload 0: it has no name"),
        (
            '{"environment": {}, "scale": 1, "workloads": [{"name": "a"}]}',
            "workload a: 'figures' is missing",
        ),
        (
            '{"environment": {}, "scale": 1, "workloads": [{"name": "a", "figures": [{}]}]}',
            "workload a: a figure has no name",
        ),
        (
            (
                '{"environment": {}, "scale": 1, "workloads": '
                '[{"name": "a", "figures": [{"name": "b", "median": 1, "min": 1}]}]}'
            ),
            "figure 'b': 'max' is missing",
        ),
    ],
)
def test_an_unusable_file_is_named_with_what_is_wrong(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = written(tmp_path, "broken.json", text)
    answer = call(path, path)
    assert answer.exit_code == 2
    assert path in answer.stderr
    assert problem in answer.stderr


def test_a_file_that_is_not_there_is_named() -> None:
    answer = call("nowhere.json", "--markdown")
    assert answer.exit_code == 2
    assert "nowhere.json: No such file" in answer.stderr


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\xff\xfe\xfa")
    answer = call(str(tmp_path / "image"), "--markdown")
    assert answer.exit_code == 2
    assert "is not UTF-8 text" in answer.stderr
