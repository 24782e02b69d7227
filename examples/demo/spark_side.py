"""The part of the demo that runs in a Spark process.

It starts the pipeline of `examples.flights` and prints its progress as lines of JSON. After a line
on stdin it waits until everything is read, counts what has landed, and audits the topic.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from io import StringIO
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from rich.console import Console

from examples.flights.pipeline import Place, new_session, start
from minikafka_client.property_files import read_properties
from pyspark_minikafka.audit import Expectation, Scope, audited, numbered
from pyspark_minikafka.audit.report import print_report, report_on
from pyspark_minikafka.listener import Lag, LagListener

ROWS_SHOWN: Final = 20


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def landed(session: SparkSession, place: Place) -> dict[str, int]:
    """Count rows and distinct rows."""
    raw = session.read.parquet(place.raw).agg(sf.count("*"), sf.countDistinct("row")).first()
    hours = session.read.parquet(place.hours).agg(sf.count("*"), sf.sum("flights")).first()
    alerts = (
        session.read.format("minikafka")
        .options(**place.kafka)
        .option("subscribe", place.alerts)
        .load()
        .select(sf.get_json_object(sf.col("value").cast("string"), "$.row").alias("row"))
        .agg(sf.count("*"), sf.countDistinct("row"))
        .first()
    )
    assert raw is not None
    assert hours is not None
    assert alerts is not None
    return {
        "raw": raw[0],
        "raw_once": raw[1],
        "hours": hours[0],
        "flights_in_hours": hours[1] or 0,
        "alerts": alerts[0],
        "alerts_once": alerts[1],
    }


def audit(session: SparkSession, place: Place, expected: dict[str, int]) -> tuple[bool, Any]:
    """Audit the topic; return whether it is clean, and the report."""
    records = (
        session.read.format("minikafka")
        .options(**place.kafka)
        .option("subscribe", place.topic)
        .option("includeHeaders", "true")
        .load()
    )
    rows = audited(numbered(records), Scope.TOPIC, Expectation(0, records_of=expected))
    report = report_on(rows, ROWS_SHOWN)
    return report.is_clean, report


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True, help="client.properties")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--width", type=int, default=120)
    parser.add_argument("--terminal", action="store_true")
    arguments = parser.parse_args()
    properties = read_properties(arguments.config)
    bootstrap = properties.pop("bootstrap.servers")
    place = Place(bootstrap, arguments.into, security=properties)
    session = new_session()
    progress = {"raw": 0}
    lock = threading.Lock()

    def on_lag(lag: Lag) -> None:
        with lock:
            progress[lag.query_name or ""] = progress.get(lag.query_name or "", 0) + lag.rows_read
            say("progress", rows=progress["raw"], lag=lag.total)

    session.streams.addListener(LagListener(on_lag))
    queries = start(session, place)
    say("ready")
    expected: dict[str, int] = json.loads(sys.stdin.readline())
    for query in queries:
        query.processAllAvailable()
        query.stop()
    say("landed", **landed(session, place))
    is_clean, report = audit(session, place, expected)
    paper = StringIO()
    console = Console(file=paper, width=arguments.width, force_terminal=arguments.terminal)
    print_report(report, console)
    say("audit", clean=is_clean, shown=paper.getvalue())
    session.stop()


if __name__ == "__main__":
    main()
