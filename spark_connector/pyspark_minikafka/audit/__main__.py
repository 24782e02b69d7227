"""``python -m pyspark_minikafka.audit``: see the package, or ``--help``."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Final

import click
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from .counts import Expectation, Scope, audited
from .numbers import AUTO, WrongPlace, numbered
from .report import print_report, report_on

FORMAT: Final = "minikafka"
_ROWS: Final = 50
_PIPE_WIDTH: Final = 240
_HELP_WIDTH: Final = 100
_QUIET: Final = {
    "spark.log.level": "FATAL",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_TASKS_PER_CORE: Final = 4
_END_OF_TRACEBACK: Final = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception): (?P<message>.+)")


@click.command(
    "audit",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _HELP_WIDTH},
)
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option(
    "--bootstrap",
    metavar="HOST:PORT[,...]",
    envvar="MINIKAFKA_BOOTSTRAP",
    default="127.0.0.1:9092",
    show_default=True,
    help="Addresses of brokers; also MINIKAFKA_BOOTSTRAP.",
)
@click.option("--pattern", metavar="REGEX", help="Topics by a Java regular expression instead.")
@click.option(
    "--producer",
    metavar="PLACE",
    default=AUTO,
    show_default=True,
    help="The place of the producer's name.",
)
@click.option(
    "--sequence",
    metavar="PLACE",
    default=AUTO,
    show_default=True,
    help="The place of the number.",
)
@click.option(
    "--scope",
    type=click.Choice([scope.value for scope in Scope]),
    default=Scope.TOPIC.value,
    show_default=True,
    help="Whether a producer numbers its records per topic, or per partition.",
)
@click.option("--first", type=int, help="Each sequence's first number [default: the smallest]")
@click.option(
    "--expect",
    metavar="[PRODUCER=]COUNT",
    multiple=True,
    help="The length of each sequence, or of one producer's; needs --first.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
)
@click.option("--starting-offsets", default="earliest", show_default=True)
@click.option("--ending-offsets", default="latest", show_default=True)
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="Another option of the source, e.g. kafka.security.protocol=SSL.",
)
@click.option(
    "--rows", type=click.IntRange(min=0), default=_ROWS, show_default=True, help="Rows shown."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(
    topics: tuple[str, ...],
    pattern: str | None,
    producer: str,
    sequence: str,
    first: int | None,
    expect: tuple[str, ...],
    rows: int,
    **settings: Any,
) -> None:
    r"""Look for lost, duplicated and reordered records of numbered producers.

    Every record must name its producer and its number: 0, 1, 2, ... A PLACE of these is one of

    \b
      auto            a header `producer` or `sequence`, else a field of that name in a JSON value
      header:NAME     a header
      json:PATH       a field in a JSON value, e.g. json:$.source.id
      key, value      the whole key or value
      constant:TEXT   the same for all records
      sql:EXPRESSION  of the columns key, value, topic, partition, offset, timestamp, headers

    Exit codes: 0 clean, 1 something was found, 2 nothing could be audited.
    """
    if bool(topics) == (pattern is not None):
        raise click.UsageError("give either topics or --pattern")
    chosen = {"subscribe": ",".join(topics)} if pattern is None else {"subscribePattern": pattern}
    # It logs at length what will be reported in one line.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    try:
        expectation = _expectation(first, expect)
        options = {**chosen, **_source_options(settings)}
        records = _session().read.format(FORMAT).options(**options).load()
        scope = Scope(settings["scope"])
        report = report_on(audited(numbered(records, producer, sequence), scope, expectation), rows)
    except (WrongPlace, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except PySparkException as error:
        raise _NothingAudited(reason_of(error)) from error
    if not report.records and report.is_clean:
        raise _NothingAudited("there are no records between these offsets")
    if settings["as_json"]:
        click.echo(json.dumps(report.document(), ensure_ascii=False))
    else:
        print_report(report, Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH))
    sys.exit(0 if report.is_clean else 1)


class _NothingAudited(click.ClickException):
    """Printed as one line on stderr."""

    exit_code = 2


def _expectation(first: int | None, words: Sequence[str]) -> Expectation:
    """Parse `--first` and `--expect`.

    Raises:
        ValueError: they are malformed or contradictory.
    """
    records: int | None = None
    records_of: dict[str, int] = {}
    for word in words:
        producer, _, count = word.rpartition("=")
        if not (count.isascii() and count.isdecimal()):
            raise ValueError(f"--expect {word!r}: {count!r} is not a number of records")
        if producer:
            records_of[producer] = int(count)
        else:
            records = int(count)
    return Expectation(first, records, records_of)


def _source_options(settings: dict[str, Any]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in settings["options"]:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--option {word!r} is not NAME=VALUE")
        options[name] = value
    return {
        "includeHeaders": "true",
        "kafka.bootstrap.servers": settings["bootstrap"],
        "kafka.isolation.level": settings["isolation"],
        "startingOffsets": settings["starting_offsets"],
        "endingOffsets": settings["ending_offsets"],
        **options,
    }


def _session() -> SparkSession:
    """The active session, or the one that spark-submit configures, or a local one."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if shutil.which("java") is None and not {"JAVA_HOME", "SPARK_REMOTE"} & set(os.environ):
        raise _NothingAudited("Spark needs Java 17 or later, but there is no java on the PATH")
    builder = SparkSession.builder.appName("minikafka audit")
    for name, value in _QUIET.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the versions of other packages
        session = builder.getOrCreate()
    if (session.conf.get("spark.master") or "").startswith("local"):
        # Spark's default is for a cluster; on one machine, most tasks would have no records.
        tasks = _TASKS_PER_CORE * (os.cpu_count() or 1)
        session.conf.set(_SHUFFLE_PARTITIONS, str(tasks))
    return session


def reason_of(error: PySparkException) -> str:
    """The line of a Spark exception that has the cause.

    The failure of a source in a Python worker is a traceback within a Java stack trace.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    ends = [found["message"] for line in lines if (found := _END_OF_TRACEBACK.fullmatch(line))]
    return ends[-1] if ends else lines[0]


if __name__ == "__main__":
    main()
