"""What the fixtures of the pytest plugin cost a test suite."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from minikafka import testing
from minikafka.protocol.messages import describe_groups
from minikafka.testing.topics import create_topic
from minikafka.testing.wire import Wire

from ..processes import ProcessFailedError
from ..workload import Figure, Round, Run, Workload

TESTS: Final = 200
TOPICS: Final = 50
GROUPS: Final = 10
SESSION_SECONDS: Final = 45
WORKERS: Final = 2
_PASSED: Final = re.compile(r"(\d+) passed")

EMPTY_TEST: Final = "def test_nothing():\n    pass\n"
# Raw sockets and not a client library: its import would be counted as the fixture's.
FIRST_RECORD_TEST: Final = """
from minikafka.protocol.messages import produce
from minikafka.protocol.records import encode_batch
from minikafka.testing.wire import Wire


def test_first_record(kafka_broker, kafka_topic):
    records = encode_batch([(None, b"1", (), 1)])
    part = produce.PartitionData(index=0, records=records)
    topic = produce.TopicData(name=kafka_topic, partition_data=[part])
    request = produce.Request(acks=-1, timeout_ms=30_000, topic_data=[topic])
    with Wire(kafka_broker.bootstrap) as wire:
        answer = wire.ask(request, 9, produce.Response)
    assert answer.responses[0].partition_responses[0].error_code == 0
"""
MANY_TESTS: Final = """
import pytest


@pytest.mark.parametrize("number", range({count}))
def test_with_a_topic(kafka_topic, number):
    assert kafka_topic
"""

# The controller of pytest-xdist gets the reports of all workers.
CONFTEST: Final = """
from pathlib import Path

SETUPS = {}


def pytest_runtest_logreport(report):
    if report.when != "call":
        SETUPS[report.nodeid] = SETUPS.get(report.nodeid, 0) + report.duration


def pytest_sessionfinish():
    Path("seconds").write_text("\\n".join(map(str, SETUPS.values())))
"""


def _run_pytest(folder: Path, source: str, count: int, *words: str) -> float:
    """The seconds that pytest takes for a file of tests, all of which have to pass."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    passed = _PASSED.search(done.stdout)
    if done.returncode or passed is None or int(passed[1]) != count:
        raise ProcessFailedError(f"the tests failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    return seconds


def _make_topics_and_groups(kafka: testing.Broker) -> None:
    for number in range(TOPICS):
        create_topic(kafka.bootstrap, f"t{number}")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(TOPICS):
        producer.produce(f"t{number}", b"1")
    producer.flush()
    for number in range(GROUPS):
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"g{number}"})
        consumer.commit(offsets=[TopicPartition("t0", 0, 1)], asynchronous=False)
        consumer.close()


def _expire_a_session(kafka: testing.Broker) -> float:
    """The seconds after which a member is gone that was silent for its session timeout."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": "g",
        "session.timeout.ms": SESSION_SECONDS * 1000,
        "heartbeat.interval.ms": (SESSION_SECONDS - 1) * 1000,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["t0"])

    def members() -> int:
        with Wire(kafka.bootstrap) as wire:
            request = describe_groups.Request(groups=["g"])
            return len(wire.ask(request, 5, describe_groups.Response).groups[0].members)

    while not consumer.assignment():
        consumer.poll(0.05)
    if members() != 1:
        raise ProcessFailedError("the group has no member whose session could end")
    started = time.perf_counter()
    kafka.clock.advance(SESSION_SECONDS + 1)
    seconds = time.perf_counter() - started
    if members():
        raise ProcessFailedError("the member has outlived its session")
    consumer.close()
    return seconds


def measure(run: Run) -> Iterator[Round]:
    """Run pytest on an empty test and on tests with fixtures; reset and advance one broker."""
    count = run.scaled(TESTS)

    def empty() -> Round:
        with run.fresh_folder() as folder:
            return {"empty": _run_pytest(folder, EMPTY_TEST, 1, "-p", "no:xdist")}

    def first_record() -> Round:
        with run.fresh_folder() as folder:
            return {"first": _run_pytest(folder, FIRST_RECORD_TEST, 1, "-p", "no:xdist")}

    def topics() -> Round:
        with run.fresh_folder() as folder:
            (folder / "conftest.py").write_text(CONFTEST)
            _run_pytest(folder, MANY_TESTS.format(count=count), count, "-n", str(WORKERS))
            seconds = [float(line) for line in (folder / "seconds").read_text().splitlines()]
        return {"topic": median(seconds) * 1000}

    def one_broker() -> Round:
        with testing.broker() as kafka:
            seconds: list[float] = []
            for _ in range(3):
                _make_topics_and_groups(kafka)
                started = time.perf_counter()
                kafka.reset()
                seconds.append(time.perf_counter() - started)
            _make_topics_and_groups(kafka)
            return {"clean": median(seconds) * 1000, "session": _expire_a_session(kafka)}

    for side in (empty, first_record):  # compile what has changed since the last run
        side()
    for measures in run.interleaved(
        empty=empty, first_record=first_record, topics=topics, one_broker=one_broker
    ):
        yield {**measures, "more": measures["first"] - measures["empty"]}


WORKLOAD = Workload(
    name="testing-fixtures",
    measures="A pytest run whose only test sends a record to `kafka_broker`, less one whose only "
    "test is empty; a reset of a broker with 50 topics and 10 groups; set-up and teardown of "
    "`kafka_topic` in 200 tests in two workers, all of which have to pass; and a session timeout "
    "of 45 s on the moved clock.",
    function=measure,
    figures=(
        Figure(name="first record, over an empty test", unit="s", of="more", at_most=0.8),
        Figure(name="the empty test", unit="s", of="empty"),
        Figure(name="kafka_clean", unit="ms", of="clean", at_most=50),
        Figure(name="kafka_topic, a test", unit="ms", of="topic", at_most=30),
        Figure(name="a session timeout of 45 s", unit="s", of="session", at_most=0.5),
    ),
    rounds=20,
)
