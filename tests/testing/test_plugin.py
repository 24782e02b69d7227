"""The pytest plugin, as another project uses it: in a pytest and a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka import testing

WORKS = """
import os, pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer

def send(bootstrap, topic):
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    return producer.send(topic, b"x").get(30).offset

@pytest.mark.parametrize("time", range(3))
def test_a_topic_of_its_own(kafka_broker, kafka_topic, time):
    assert send(kafka_broker.bootstrap, kafka_topic) == 0
    assert "test_a_topic_of_its_own" in kafka_topic

@pytest.mark.kafka_topic(partitions=3, configs={"cleanup.policy": "compact"})
def test_a_topic_as_it_should_be(kafka_broker, kafka_topic):
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
    topics = admin.list_topics(timeout=30).topics
    assert len(topics[kafka_topic].partitions) == 3
    assert not [name for name in topics if "of_its_own" in name]

def test_leaves_something(kafka_broker):
    assert send(kafka_broker.bootstrap, "left") == 0

def test_clean(kafka_clean):
    admin = AdminClient({"bootstrap.servers": kafka_clean.bootstrap})
    assert admin.list_topics(timeout=30).topics == {}

@pytest.fixture
def greeting(kafka_broker):
    send(kafka_broker.bootstrap, "greetings")

def test_fixtures_come_after_the_cleaning(greeting, kafka_topic, kafka_clean):
    admin = AdminClient({"bootstrap.servers": kafka_clean.bootstrap})
    assert set(admin.list_topics(timeout=30).topics) == {"greetings", kafka_topic}

def test_a_cluster(kafka_cluster):
    assert kafka_cluster.bootstrap.count(",") == 2
    kafka_cluster.kill(2)

def test_the_cluster_is_whole(kafka_cluster):
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap})
    assert len(admin.list_topics(timeout=30).brokers) == 3

def test_programs_that_it_starts_find_it(kafka_broker):
    assert os.environ["KAFKA_BOOTSTRAP_SERVERS"]
"""

ASYNC = """
import asyncio, trio
from aiokafka import AIOKafkaProducer

async def send(bootstrap, topic):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        return (await producer.send_and_wait(topic, b"x")).offset

def test_asyncio(kafka_broker, kafka_topic):
    assert asyncio.run(send(kafka_broker.bootstrap, kafka_topic)) == 0

async def test_trio(kafka_broker, kafka_topic):
    from minikafka_client import Producer
    async with Producer(kafka_broker.bootstrap) as producer:
        assert (await producer.send_and_wait(kafka_topic, b"x")).offset == 0
"""

FAILS = """
def test_fails(kafka_broker, kafka_topic):
    kafka_broker.inject("Metadata", "INVALID_REQUEST", times=None)
    assert kafka_topic == "another"

def test_next(kafka_broker, kafka_topic):
    assert kafka_topic  # making it asked for Metadata
"""


def run(
    directory: Path, content: str, *arguments: str, ini: str = ""
) -> subprocess.CompletedProcess[str]:
    (directory / "test_other.py").write_text(content)
    (directory / "pytest.ini").write_text(f"[pytest]\ntrio_mode = true\n{ini}")
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment.pop("COV_CORE_SOURCE", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_fixtures_do_what_they_say(tmp_path: Path) -> None:
    done = run(tmp_path, WORKS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_work_in_coroutines(tmp_path: Path) -> None:
    done = run(tmp_path, ASYNC)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_xdist_worker_has_its_own(tmp_path: Path) -> None:
    content = "import pytest\n@pytest.mark.parametrize('n', range(8))\n"
    content += "def test(kafka_broker, kafka_topic, n):\n    print('at', kafka_broker.bootstrap)\n"
    done = run(tmp_path, content, "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    at = {line for line in done.stdout.splitlines() if line.startswith("at ")}
    assert len(at) == 2, done.stdout


def test_a_failure_is_reported_with_the_log_of_its_test_and_leaves_no_fault(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, FAILS)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    report = done.stdout[done.stdout.index("= FAILURES =") : done.stdout.index("= PASSES =")]
    assert "log of the broker" in report


def test_settings_come_from_the_command_line_and_the_configuration(tmp_path: Path) -> None:
    content = """
from confluent_kafka.admin import AdminClient, ConfigResource

def test(kafka_broker):
    resource = ConfigResource("broker", "1")
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
    configs = admin.describe_configs([resource])[resource].result()
    assert configs["num.partitions"].value == "5"
    assert configs["log.retention.ms"].value == "70000"
"""
    ini = "kafka_set =\n    num.partitions = 4\n    log.retention.ms = 70000\n"
    done = run(tmp_path, content, "--kafka-set", "num.partitions=5", ini=ini)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_setting_without_a_value_is_wrong_usage(tmp_path: Path) -> None:
    done = run(tmp_path, "def test(kafka_broker): ...", "--kafka-set", "num.partitions")
    assert done.returncode != 0
    assert "--kafka-set num.partitions: write NAME=VALUE" in done.stdout + done.stderr


@pytest.mark.parametrize("way", ["option", "ini"])
def test_another_kafka_is_used_and_what_it_cannot_do_is_skipped(tmp_path: Path, way: str) -> None:
    content = """
def test_topic(kafka_broker, kafka_topic):
    print("at", kafka_broker.bootstrap)

def test_clean(kafka_clean): ...

def test_faults(kafka_broker):
    kafka_broker.inject("Produce", "NOT_LEADER_OR_FOLLOWER")

def test_cluster(kafka_cluster):
    kafka_cluster.kill(1)
"""
    with testing.broker(control=False) as other:
        if way == "option":
            done = run(tmp_path, content, "--kafka-bootstrap", other.bootstrap)
        else:
            done = run(tmp_path, content, ini=f"kafka_bootstrap = {other.bootstrap}\n")
    assert "1 passed, 3 skipped" in done.stdout, done.stdout
    assert f"at {other.bootstrap}" in done.stdout
    assert f"`inject` needs minikafka, and --kafka-bootstrap={other.bootstrap}" in done.stdout


def test_nothing_is_loaded_for_tests_that_need_no_kafka(tmp_path: Path) -> None:
    content = """
import sys

def test():
    loaded = {name for name in sys.modules if name.startswith("minikafka")}
    assert loaded == {"minikafka", "minikafka.pytest_plugin"}
"""
    done = run(tmp_path, content, "-p", "no:trio")
    assert done.returncode == 0, done.stdout + done.stderr
