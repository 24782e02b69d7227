"""Apache Kafka under attack, and Spark as a second counter."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.lab.processes.apache_kafka_target import ApacheKafkaTarget
from minikafka.lab.processes.engine import ProcessesEngine
from minikafka.lab.processes.java import NoApacheKafkaError, jar_folder
from minikafka.lab.processes.verify import verify
from minikafka.lab.scenario import Scenario


@pytest.mark.java
@pytest.mark.slow
def test_apache_kafka_loses_with_the_leader_what_only_the_leader_had(jars: Path) -> None:
    engine = ProcessesEngine(ApacheKafkaTarget(jars))
    try:
        token = "p.acks1-retries_t.r3-m2_c.none_f.leader-killed-after-ack@0"
        counts = engine.run(Scenario.parse(token)).counts
    finally:
        engine.close()
    assert counts.trusted == counts.sent
    assert counts.lost > 0


@pytest.mark.java
@pytest.mark.slow
def test_spark_counts_the_same(
    engine: ProcessesEngine, java: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = (
        "p.acksall-retries_t.r3-m2_c.none_f.ack-lost@2",
        "p.acksall-retries-fly5_t.r3-m2_c.none_f.request-lost@2",
        "p.acks0_t.r3-m2_c.none_f.request-lost@0",
    )
    monkeypatch.setattr(
        "minikafka.lab.processes.verify.scenarios_for", lambda *_: map(Scenario.parse, tokens)
    )
    found = verify(engine, seconds=60, runs_max=3, count="spark")
    (repeated, reordered, lost) = (result.counts for result in found.found.values())
    assert repeated.repeated == 3
    assert reordered.reordered > 0
    assert lost.lost > 0


def test_without_apache_kafka_it_is_said_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    with pytest.raises(NoApacheKafkaError, match=r"no Java|--apache-kafka"):
        jar_folder()
