"""Both connectors refuse the same reads, for the same reasons."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from minikafka.testing import Broker
from minikafka_client.sync import AdminClient, Writer
from minikafka_client.types import TopicPartition
from tests.spark.conftest import MakeTopic
from tests.spark.oracle.library import OFFICIAL, OURS, read

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("options", "theirs", "ours"),
    [
        ({}, "options must be specified", "no topics were chosen"),
        ({"subscribe": "T", "assign": '{"T":[0]}'}, "Only one of", "are both set"),
        ({"subscribe": ""}, "No topics to subscribe", "names no topic"),
        ({"assign": "T"}, "No topicpartitions to assign", 'JSON like {"topicA":[0,1]'),
        ({"startingOffsets": "latest"}, "can't be latest for batch", "is for streams"),
        ({"endingOffsets": "earliest"}, "can't be earliest for batch", "makes an empty batch"),
        ({"startingOffsets": '{"T":{"1":0}}'}, "don't match what are assigned", "leaves out T-0"),
        ({"startingOffsets": '{"T":{"0":9}}'}, "Lost task", "T-0 is 9, after the end"),
        ({"endingOffsets": '{"T":{"0":-2}}'}, "can't be earliest for batch", "is -2 (earliest)"),
        ({"startingTimestamp": "-5"}, "No offset matched", "startingTimestamp='-5'"),
        ({"minPartitions": "0"}, "minPartitions", "minPartitions='0'"),
        ({"subscribePattern": "["}, "Unclosed character class", "is not a regular expression"),
        ({"kafka.fetch.min.bytes": "x"}, "Lost task", "kafka.fetch.min.bytes='x'"),
        ({"kafka.bootstrap.servers": "localhost"}, "Invalid url", "'localhost' has no port"),
        ({"kafka.auto.offset.reset": "latest"}, "auto.offset.reset", "auto.offset.reset"),
        ({"kafka.key.deserializer": "x"}, "key.deserializer", "key.deserializer"),
        ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit", "enable.auto.commit"),
        ({"kafka.interceptor.classes": "x"}, "interceptor.classes", "interceptor.classes"),
    ],
)
def test_both_connectors_refuse(
    official: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    options: dict[str, str],
    theirs: str,
    ours: str,
) -> None:
    topic = make_topic()
    given = {name: value.replace("T", topic) for name, value in options.items()}
    if options and not {"subscribe", "assign", "subscribePattern"} & set(options):
        given["subscribe"] = topic
    for connector, reason in ((OFFICIAL, theirs), (OURS, ours)):
        outcome = read(official, connector, broker.bootstrap, given)
        assert outcome.rows is None, f"{connector} accepts {given}"
        assert reason.replace("T-0", f"{topic}-0") in outcome.error


@pytest.mark.parametrize("fails_on_data_loss", ["true", "false"])
def test_both_connectors_refuse_an_end_before_the_first_remaining_record(
    official: SparkSession,
    broker: Broker,
    admin: AdminClient,
    make_topic: MakeTopic,
    fails_on_data_loss: str,
) -> None:
    topic = make_topic()
    with Writer(broker.bootstrap) as writer:
        for _ in range(9):
            writer.send(topic, b"v")
    admin.delete_records({TopicPartition(topic, 0): 4})
    options = {
        "subscribe": topic,
        "endingOffsets": f'{{"{topic}":{{"0":2}}}}',
        "failOnDataLoss": fails_on_data_loss,
    }
    for connector, reason in ((OFFICIAL, "Lost task"), (OURS, f"{topic}-0 is 4, after the end")):
        outcome = read(official, connector, broker.bootstrap, options)
        assert outcome.rows is None, f"{connector} accepts it"
        assert reason in outcome.error
