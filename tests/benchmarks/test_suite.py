"""The suite: a short look at it without Java, its warm-up, its schedule, and its missing peers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import PAGE, RESULTS, main
from benchmarks.load.scheduled import percentile, send_on_schedule
from benchmarks.peers import APACHE, LIBRDKAFKA, OURS
from benchmarks.plots import Axis
from benchmarks.results import draw, judge, missing_figures
from benchmarks.suite import run as suite_run
from benchmarks.suite import servers
from benchmarks.suite.growth import (
    BUSY_PARTITIONS,
    PARTITION_COUNTS,
    idle_topics,
    leave_out_large,
    topic_size,
)
from benchmarks.suite.one_broker import read_perf_test
from benchmarks.suite.run import GROWTH, SIDE_BY_SIDE, choose
from benchmarks.suite.servers import Stage, absent_peers, long_turns_noted, warm
from benchmarks.workload import Figure, Plot, Round, Run, Workload
from minikafka.testing.brokers import LongTurnError
from tests.peers import java_runtime


def stage(folder: Path) -> Stage:
    return Stage(folder=folder, scale=1.0, say=lambda _: None, absent={})


def test_a_short_look_without_java_measures_ours_and_names_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "WARM_UPS_MAX", 2)
    parts = ("record size", "latency at a fixed rate", "kafka-producer-perf-test")
    only = [word for part in parts for word in ("--only", part)]
    arguments = ["suite", "--scale", "0.003", "--rounds", "1", "--without", APACHE]
    answer = CliRunner().invoke(main, [*arguments, *only, "--output", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    found = json.loads((tmp_path / RESULTS).read_text())
    assert found["peers"] == {APACHE: "left out by --without"}
    by_name = {one["name"]: one for one in found["workloads"]}
    assert list(by_name) == list(parts)
    size = by_name["record size"]
    assert {one["name"] for one in size["figures"]} >= {f"{OURS}, produce 100 B"}
    assert {one["name"] for one in size["missing"]} >= {"produce 100 B, over Apache Kafka"}
    assert [one["name"] for one in size["plots"][0]["series"]] == [OURS]
    assert by_name["kafka-producer-perf-test"]["figures"] == []
    page = (tmp_path / PAGE).read_text()
    assert "Apache Kafka is missing: left out by --without" in page
    assert page.count("<svg") == 6


@pytest.mark.parametrize("parts", [SIDE_BY_SIDE, GROWTH])
def test_parts_have_names_figures_and_times(
    parts: tuple[suite_run.Part, ...], tmp_path: Path
) -> None:
    workloads = [part(stage(tmp_path)) for part in parts]
    assert len({one.name for one in workloads}) == len(workloads)
    for one in workloads:
        assert one.measures.endswith(".")
        assert one.seconds > 0
        assert len({figure.name for figure in one.figures}) == len(one.figures)
        assert all(figure.better for figure in one.figures), one.name


def test_the_side_by_side_suite_is_planned_for_ten_minutes(tmp_path: Path) -> None:
    assert sum(part(stage(tmp_path)).seconds for part in SIDE_BY_SIDE) <= 600


def test_an_unknown_part_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    answer = CliRunner().invoke(main, ["suite", "--only", "coffee", "--output", str(tmp_path)])
    assert answer.exit_code == 2
    assert "no part coffee" in answer.stderr
    assert "record size" in answer.stderr


def test_parts_keep_their_order(tmp_path: Path) -> None:
    workloads = [part(stage(tmp_path)) for part in SIDE_BY_SIDE]
    chosen = choose(workloads, ["more brokers", "record size"])
    assert [one.name for one in chosen] == ["record size", "more brokers"]


# --- missing peers -------------------------------------------------------------------------------


def test_no_java_and_no_jars_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_runtime, "missing", lambda: "there is no java here")
    assert absent_peers([APACHE]) == {APACHE: "there is no java here"}

    def refuse() -> Path:
        raise RuntimeError("mvn ended with 1:\nno network")

    monkeypatch.setattr(java_runtime, "missing", lambda: None)
    monkeypatch.setattr(java_runtime, "jars", refuse)
    assert absent_peers([APACHE]) == {APACHE: "Maven cannot fetch its jars: mvn ended with 1:"}


def test_no_librdkafka_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert "confluent-kafka is not installed" in absent_peers([LIBRDKAFKA])[LIBRDKAFKA]


def fake(needs: frozenset[str] = frozenset()) -> Workload:
    def nothing(_: Run) -> Iterator[Round]:
        return iter(())

    return Workload(
        name="fake",
        measures="Nothing.",
        function=nothing,
        needs=needs,
        figures=(
            Figure(name="ratio", unit="x", of=f"{OURS} rate", per=f"{APACHE} rate"),
            Figure(name="rate", unit="records/s", of=f"{OURS} rate"),
        ),
        plots=[
            Plot(
                title="Rate",
                x=Axis("size"),
                y=Axis("rate"),
                series={name: [(1, f"{name} rate")] for name in (OURS, APACHE)},
            )
        ],
    )


def test_a_figure_without_its_peer_is_missing_and_not_estimated() -> None:
    absent = {APACHE: "there is no java"}
    rounds = [{f"{OURS} rate": 3.0}]
    assert [one.figure.name for one in judge(fake(), rounds, absent)] == ["rate"]
    ((figure, reason),) = missing_figures(fake(), absent)
    assert figure.name == "ratio"
    assert reason == "Apache Kafka: there is no java"
    (drawn,) = draw(fake(), rounds)
    assert list(drawn.series) == [OURS]


def test_topics_that_do_not_fit_are_left_out_and_named(tmp_path: Path) -> None:
    run = run_until(float("inf"), tmp_path)
    leave_out_large(run, 6e9)
    leave_out_large(run, 30e9)  # another round, with more room, must have the same points
    workload = topic_size(stage(tmp_path))
    rounds = [
        {
            f"{OURS} {size} GB {way}{end}": 1.0
            for size in (1, 2, 5)
            for way in ("in", "out")
            for end in ("", " cpu", " user")
        }
        | {f"{OURS} {size} GB plain write": 1.0 for size in (1, 2, 5)}
    ]
    measured = [one.figure.name for one in judge(workload, rounds, run.left_out)]
    assert "5 over 1 GB, in, processor time per record" in measured
    missing = {one.name: why for one, why in missing_figures(workload, run.left_out)}
    why = missing["20 over 1 GB, in, processor time per record"]
    assert why.startswith("minikafka 20 GB: it does not fit; the log directory has 6 GB to spare")
    assert len(measured) == len(missing) == 14
    (drawn,) = draw(workload, rounds)
    assert [at for at, _ in drawn.series["time on the clock, in"]] == [1, 2, 5]


def test_a_part_without_its_load_is_missing_as_a_whole() -> None:
    absent = {LIBRDKAFKA: "not installed"}
    workload = fake(frozenset({LIBRDKAFKA}))
    assert judge(workload, [], absent) == ()
    assert len(missing_figures(workload, absent)) == 2
    assert draw(workload, []) == ()


def test_a_long_turn_of_a_broker_is_noted_and_nothing_else_is_hidden() -> None:
    notes: list[str] = []

    def end_with(error: Exception) -> None:
        with long_turns_noted(notes):
            raise error

    end_with(LongTurnError("the broker had long turns:\nApplier.run ran for 107 ms in one turn"))
    assert notes == ["the broker had long turns: Applier.run ran for 107 ms in one turn"]
    with pytest.raises(RuntimeError, match="lost"):
        end_with(RuntimeError("records lost"))


# --- warm-up, time, schedule ---------------------------------------------------------------------


def test_warm_is_when_two_runs_in_a_row_agree() -> None:
    rates = iter([100.0, 200.0, 300.0, 309.0, 1.0])
    assert warm(lambda: next(rates), 8) == "warm after 4 runs, the last two 3.0% apart"
    assert next(rates) == 1.0


def test_what_never_agrees_is_said_to() -> None:
    rates = iter([100.0, 200.0] * 5)
    text = warm(lambda: next(rates), 4)
    assert text.startswith("not warm: no two runs in a row of 4 agreed within 5%")


def test_a_warm_up_ends_when_its_time_is_over() -> None:
    rates, seconds = iter([100.0, 200.0, 100.0, 200.0]), iter([0.0, 30.0, 50.0])
    text = warm(lambda: next(rates), 8, 40.0, lambda: next(seconds))
    assert text.startswith("not warm: no two runs in a row of 3 agreed within 5%")


def run_until(moment: float, folder: Path) -> Run:
    return Run(rounds=5, scale=1.0, folder=folder, say=lambda _: None, until=moment)


def test_a_late_part_does_two_rounds_and_says_so(tmp_path: Path) -> None:
    late = run_until(0.0, tmp_path)
    assert list(late.numbers()) == [1, 2]
    assert late.notes == ["time was over after 2 of 5 rounds"]
    in_time = run_until(float("inf"), tmp_path)
    assert list(in_time.numbers()) == [1, 2, 3, 4, 5]
    assert in_time.notes == []


class Clock:
    """Moves when somebody looks (a microsecond), sleeps, or waits for an answer."""

    def __init__(self, answers: list[float]) -> None:
        self.seconds = 0.0
        self.answers = iter(answers)

    def now(self) -> float:
        self.seconds += 1e-6
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def exchange(self) -> None:
        self.seconds += next(self.answers)


def test_a_stall_counts_for_every_request_that_it_kept_waiting() -> None:
    clock = Clock([0.001, 0.1, 0.001, 0.001, 0.001, 0.001, 0.001])
    taken, late, seconds = send_on_schedule(clock.exchange, 50, 7, clock.now, clock.sleep)
    # One is sent every 20 ms; the second answer takes 100, so the third has waited for 80.
    assert taken == pytest.approx([0.001, 0.1, 0.081, 0.062, 0.043, 0.024, 0.005], abs=2e-4)
    assert late == 5
    assert seconds == pytest.approx(0.125, abs=1e-3)


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, one) for one in (0, 50, 99, 99.9, 100)] == [1, 50, 99, 100, 100]
    assert percentile([7.0], 99.9) == 7.0


def test_the_last_line_of_the_perf_test_is_about_all_records() -> None:
    output = (
        "2001 records sent, 400.1 records/sec (0.38 MB/sec), 9.1 ms avg latency, 31.0 ms max "
        "latency.\n"
        "6000 records sent, 1500.5 records/sec (1.43 MB/sec), 12.34 ms avg latency, 250.00 ms max "
        "latency, 11 ms 50th, 20 ms 95th, 41 ms 99th, 240 ms 99.9th.\n"
    )
    expected = {"records": 6000, "rate": 1500.5, "50th": 11, "99th": 41}
    assert read_perf_test(output) == expected
    assert read_perf_test("Exception in thread main") is None


@pytest.mark.parametrize("count", PARTITION_COUNTS)
def test_a_broker_has_as_many_partitions_as_its_point_says(count: int) -> None:
    topics = dict(idle_topics(count))
    assert BUSY_PARTITIONS + sum(topics.values()) == count
    assert all(0 < partitions <= 1000 for partitions in topics.values())
