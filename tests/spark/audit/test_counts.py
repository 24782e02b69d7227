"""The audit's counts equal those of a model, and planted findings are found."""

from __future__ import annotations

import random
from dataclasses import astuple
from io import StringIO

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from pyspark_minikafka.audit import Expectation, Scope, audited
from pyspark_minikafka.audit.report import print_report, report_on
from tests.faults.campaign import rounds, with_seed
from tests.spark.audit.model import SCHEMA, Found, Place, Seen, drawn, expected

pytestmark = [pytest.mark.java, pytest.mark.slow]

EXPECTATIONS = (
    Expectation(),
    Expectation(0, 30, {"b": 45, "nobody": 3}),
    Expectation(-5),
)


def found_in(
    spark: SparkSession, records: list[Seen], scope: Scope, expectation: Expectation, bits: int
) -> dict[Place, Found]:
    rows = spark.createDataFrame([astuple(seen) for seen in records], SCHEMA)
    return {
        (row.topic or "-", row.partition, row.producer): Found(
            row.records, row.lost, row.duplicated, row.reordered, row.unnumbered
        )
        for row in audited(rows, scope, expectation, stretch_bits=bits).collect()
    }


@with_seed
@pytest.mark.parametrize("scope", Scope)
def test_random_topics_are_counted_like_the_model_does(
    spark: SparkSession, seed: int, scope: Scope
) -> None:
    """Audit all topics together: a job costs more than its counting."""
    dice = random.Random(f"{seed} {scope}")
    count = rounds(60)
    records = [seen for number in range(count) for seen in drawn(dice, f"t{number}")]
    dice.shuffle(records)
    for expectation in EXPECTATIONS if count > 60 else [EXPECTATIONS[scope is Scope.TOPIC]]:
        found = found_in(spark, records, scope, expectation, bits=dice.choice((1, 3, 20)))
        assert found == expected(records, scope, expectation)


def test_planted_findings_are_shown_with_an_instance(spark: SparkSession) -> None:
    """Instances of findings, which the model does not compute."""
    numbers = [0, 1, 2, 5, 6, 6, 8, 7, 9]
    records = [Seen("t", 4, 100 + at, "p", number) for at, number in enumerate(numbers)]
    records += [Seen("t", 5, 7, "p", 9), Seen("t", 5, 8, None, None)]
    rows = spark.createDataFrame([astuple(seen) for seen in records], SCHEMA)
    found = audited(rows, Scope.TOPIC, Expectation(0, 12), stretch_bits=2)
    report = report_on(found, rows_max=2)
    assert (report.records, report.lost, report.duplicated) == (11, 4, 2)
    assert (report.reordered, report.unnumbered) == (1, 1)
    assert not report.is_clean
    assert report.rows_left_out == 2
    whole, part = report.rows
    assert (whole["partition"], whole["first"], whole["last"]) == (None, 0, 9)
    assert whole["first_lost"] == {"from": 3, "to": 4}
    assert whole["first_duplicated"] == {"sequence": 6, "partition": 4, "offset": 104}
    assert whole["first_reordered"] == {"sequence": 7, "partition": 4, "offset": 107}
    assert (part["partition"], part["lost"], part["duplicated"]) == (4, None, 1)
    paper = StringIO()
    print_report(report, Console(width=200, file=paper))
    shown = paper.getvalue()
    assert "lost 3 to 4; 6 again, partition 4 offset 104; 7 late, partition 4 offset 107" in shown
    assert "not clean: 11 records; 4 lost, 2 duplicated, 1 reordered, 1 unnumbered" in shown
    assert "and 2 more rows" in shown
