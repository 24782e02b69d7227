"""``python -m pyspark_minikafka.audit`` on a topic: its output and exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from minikafka.testing import Broker
from minikafka_client.sync import Producer
from pyspark_minikafka.audit.__main__ import main
from tests.spark.conftest import MakeTopic

pytestmark = pytest.mark.slow


class Audit:
    """The command, with the session of the tests."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["--bootstrap", self.bootstrap, *words])


@pytest.fixture
def audit(spark: SparkSession, broker: Broker) -> Audit:
    return Audit(broker.bootstrap)


@pytest.fixture
def topic(make_topic: MakeTopic, broker: Broker) -> str:
    """Two producers in two partitions: one in order, the other with losses and duplicates."""
    name = make_topic(2)
    with Producer(broker.bootstrap) as producer:
        for number in range(10):
            document = json.dumps({"producer": "careful", "sequence": number})
            producer.send(name, document.encode(), partition=number % 2)
        for number in (0, 1, 4, 3, 3):
            headers = (("producer", b"careless"), ("sequence", str(number).encode()))
            producer.send(name, None, b"key", partition=1, headers=headers)
        producer.flush()
    return name


def test_findings_are_in_the_table_and_the_exit_code(audit: Audit, topic: str) -> None:
    result = audit.run(topic, "--first", "0", "--expect", "careful=10", "--expect", "careless=7")
    assert result.exit_code == 1
    head, *rows, _, verdict = result.output.splitlines()
    assert head.split()[:4] == ["topic", "producer", "partition", "records"]
    found = {tuple(row.split()[1:3]): row.split()[3:] for row in rows}
    assert found["careful", "all"] == ["10", "0", "9", "0", "0", "0"]
    assert found["careless", "all"] == ["5", "0", "4", "3", "1", "1"]
    assert "lost 2; 3 again, partition 1 offset 8; 3 late, partition 1 offset 8" in result.output
    assert found["careful", "0"] == ["5", "0", "8", "-", "0", "0"]
    assert verdict == "not clean: 15 records; 3 lost, 1 duplicated, 1 reordered"


def test_a_clean_topic_as_json(audit: Audit, topic: str) -> None:
    result = audit.run(topic, "--json", "--producer", "constant:x", "--sequence", "sql:offset",
                       "--scope", "partition", "--rows", "1")  # fmt: skip
    assert result.exit_code == 0
    document = json.loads(result.output)
    assert document["clean"] is True
    assert document["records"] == 15
    assert document["rows_left_out"] == 1
    assert document["rows"][0]["producer"] == "x"


def test_ranges_between_given_offsets(audit: Audit, topic: str) -> None:
    ends = json.dumps({topic: {"0": 1, "1": 0}})
    result = audit.run("--pattern", f"{topic}.*", "--json", "--ending-offsets", ends)
    assert result.exit_code == 0
    assert json.loads(result.output)["records"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-topic"], "there is no topic 'no-such-topic'"),
        (["TOPIC", "--ending-offsets", "earliest"], "endingOffsets"),
        (["TOPIC", "--option", "subscribes=x"], "did you mean 'subscribe'?"),
        (["TOPIC", "--option", "x"], "--option 'x' is not NAME=VALUE"),
        (["TOPIC", "--sequence", "sql:nothing"], "`nothing` cannot be resolved"),
        (["TOPIC", "--sequence", "nothing"], "'nothing' is not a place in a record"),
        (["TOPIC", "--expect", "7"], "needs the first number"),
        (["TOPIC", "--first", "0", "--expect", "a=b"], "'b' is not a number of records"),
        (["TOPIC", "--pattern", "x"], "give either topics or --pattern"),
        ([], "give either topics or --pattern"),
        (["TOPIC", "--starting-offsets", '{"TOPIC":{"0":5,"1":10}}'], "there are no records"),
    ],
)
def test_errors_of_the_audit_are_one_line(
    audit: Audit, topic: str, words: list[str], message: str
) -> None:
    result = audit.run(*(word.replace("TOPIC", topic) for word in words))
    assert result.exit_code == 2
    assert message in result.output.splitlines()[-1]
    assert "Traceback" not in result.output


def test_without_java_the_error_says_so() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    finished = subprocess.run(
        [sys.executable, "-m", "pyspark_minikafka.audit", "orders"],
        env={**environment, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2
    assert finished.stderr == (
        "Error: Spark needs Java 17 or later, but there is no java on the PATH\n"
    )
