"""Spark's own connector in the session of the tests, and brokers to read from."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minikafka.testing import Broker
from tests.peers import java_runtime
from tests.peers.apache_kafka import shared
from tests.spark.oracle.library import Library, fill

POM = Path(__file__).with_name("pom.xml")
BROKERS = ("minikafka", "apache-kafka")


@pytest.fixture(scope="session")
def official(spark: SparkSession) -> SparkSession:
    """The session with Spark's own connector as `kafka`; skipped without Maven."""
    reason = java_runtime.missing()
    if reason is not None:
        pytest.skip(reason)
    for jar in sorted(java_runtime.jars(POM).glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture(scope="session")
def apache_kafka(
    official: SparkSession, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> str:
    """The address of Apache Kafka, which tests/peers shares."""
    folder = tmp_path_factory.getbasetemp()
    return shared(folder if worker_id == "master" else folder.parent).bootstrap


@pytest.fixture(scope="session")
def libraries() -> dict[str, Library]:
    """The filled libraries by broker."""
    return {}


@pytest.fixture(params=BROKERS)
def library(
    request: pytest.FixtureRequest,
    official: SparkSession,
    broker: Broker,
    libraries: dict[str, Library],
) -> Library:
    """The same topics on both brokers."""
    which: str = request.param
    if which not in libraries:
        if which == "minikafka":
            libraries[which] = fill(broker.bootstrap, "oracle")
        else:
            libraries[which] = fill(request.getfixturevalue("apache_kafka"), "oracle")
    return libraries[which]
