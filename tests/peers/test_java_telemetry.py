"""Java's clients push their metrics to our broker, and kafka-configs asks them to (KIP-714)."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from minikafka.cli.main import main
from tests.kit.waiting import work_until
from tests.peers.java_clients import JavaClients
from tests.peers.test_java_tools import run_tool

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGS = "kafka.admin.ConfigCommand"


def client_metrics(bootstrap: str, *words: str) -> dict[str, object]:
    ran = CliRunner().invoke(main, ["client-metrics", *words, "--json", "--bootstrap", bootstrap])
    assert ran.exit_code == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_a_java_consumer_pushes_what_kafka_configs_asks_for(
    java: JavaClients, ours: str, topic: str, name: str
) -> None:
    of_metrics = ("--bootstrap-server", ours, "--entity-type", "client-metrics")
    run_tool(
        CONFIGS,
        *(*of_metrics, "--entity-name", name, "--alter", "--add-config"),
        f"metrics=[org.apache.kafka.consumer.],interval.ms=100,match=[client_id={name}]",
    )
    assert "interval.ms=100" in run_tool(CONFIGS, *of_metrics, "--entity-name", name, "--describe")
    consumer = java.consumer(name, ours, topics=[topic], group_id=name, client_id=name)

    def pushed() -> list[object]:
        found = client_metrics(ours, "list")["clients"]
        assert isinstance(found, list)
        return [one for one in found if one["client_id"] == name]

    work_until(lambda: bool(pushed()), consumer.poll, what="a push")
    shown = client_metrics(ours, "show", name)
    assert shown["client_software_name"] == "apache-kafka-java"
    metrics = shown["metrics"]
    assert isinstance(metrics, list)
    assert metrics
    assert all(one["name"].startswith("org.apache.kafka.consumer.") for one in metrics)
    run_tool(
        CONFIGS,
        *(*of_metrics, "--entity-name", name, "--alter"),
        *("--delete-config", "metrics,interval.ms,match"),
    )


def test_kafka_configs_changes_the_settings_of_a_group(ours: str, name: str) -> None:
    of_group = ("--bootstrap-server", ours, "--entity-type", "groups", "--entity-name", name)
    run_tool(CONFIGS, *of_group, "--alter", "--add-config", "consumer.session.timeout.ms=46000")
    assert "consumer.session.timeout.ms=46000" in run_tool(CONFIGS, *of_group, "--describe")
    run_tool(CONFIGS, *of_group, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "consumer.session.timeout.ms=46000" not in run_tool(CONFIGS, *of_group, "--describe")
