"""Spark over TLS and SASL, against our broker: the user may do what the rules say."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from minikafka import testing
from minikafka_client.types import NewTopic
from tests.spark.secured import every_way


def test_batches_and_streams_go_both_ways_for_a_user(spark: SparkSession, tmp_path: Path) -> None:
    with testing.secure_broker() as kafka:
        with kafka.admin() as admin:
            admin.create_topics([NewTopic("flights"), NewTopic("flights-copy")])
        kafka.allow("alice", "READ", "WRITE", topic="flights*")
        properties = kafka.java_client("alice")
        found = every_way(spark, properties, "flights", tmp_path)
    assert found == (["a", "b", "c"], ["a", "b", "c"])
