"""The demo itself, with fewer and made-up flights and without Spark."""

import pytest

from examples.demo import run
from examples.demo.ledger import Ledger
from examples.demo.spark_pipeline import Landing, SparkPipeline
from examples.flights.feed import Flight

CARRIERS = (b"UA", b"AA", b"B6", b"DL", b"EV")


def made_up_flights(count: int) -> list[Flight]:
    return [
        Flight(CARRIERS[row % len(CARRIERS)], b'{"row":%d,"year":2013}' % row, b"JFK", row)
        for row in range(count)
    ]


@pytest.fixture(autouse=True)
def fewer_flights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "load_flights", lambda _count_max: made_up_flights(20_000))
    monkeypatch.setattr("sys.argv", ["run.py"])


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _program: None)


def test_the_demo_finds_every_flight_again_and_says_what_spark_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run.main() == 0
    shown = capsys.readouterr().out
    assert "no pipeline on Spark: it needs Java 17 or later" in shown.replace("\n", " ")
    assert "SIGKILL to the leader of flights-0 after " in shown
    assert "20,000" in shown


def test_the_demo_fails_when_a_flight_is_lost_on_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receive = Ledger.receive

    def look_away(ledger: Ledger, number: int, key: bytes | None, value: bytes | None) -> None:
        if number != 4711:
            receive(ledger, number, key, value)

    monkeypatch.setattr(Ledger, "receive", look_away)
    assert run.main() == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "and lost" in line]
    assert " 1 " in line


def test_the_pipeline_needs_java_and_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (SparkPipeline.missing() or "").startswith("it needs Java")
    monkeypatch.setattr("shutil.which", lambda _program: "/bin/java")
    monkeypatch.setattr("examples.demo.spark_pipeline.find_spec", lambda _name: None)
    assert "there is no pyspark and no pyarrow and no numpy" in (SparkPipeline.missing() or "")


@pytest.mark.parametrize(
    ("landing", "is_exact"),
    [
        (Landing(9, 9, 3, 9, 2, 2), True),
        (Landing(10, 9, 3, 9, 2, 2), False),
        (Landing(9, 8, 3, 9, 2, 2), False),
        (Landing(9, 9, 3, 8, 2, 2), False),
        (Landing(9, 9, 3, 9, 3, 2), False),
    ],
)
def test_what_has_landed_is_judged(landing: Landing, is_exact: bool) -> None:
    assert landing.is_exactly(9) is is_exact
