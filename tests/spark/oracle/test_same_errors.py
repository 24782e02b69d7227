"""What Spark's own connector refuses is refused here, too, and for the same reason."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.live_broker import LiveBroker
from tests.spark.conftest import MakeTopic
from tests.spark.oracle.library import OFFICIAL, OURS, read

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("options", "theirs", "ours"),
    [
        ({}, "options must be specified", "which topics?"),
        ({"subscribe": "T", "assign": '{"T":[0]}'}, "Only one of", "are both set"),
        ({"subscribe": ""}, "No topics to subscribe", "names no topic"),
        ({"assign": "T"}, "No topicpartitions to assign", 'JSON like {"topicA":[0,1]'),
        ({"startingOffsets": "latest"}, "can't be latest for batch", "is for streams"),
        ({"endingOffsets": "earliest"}, "can't be earliest for batch", "makes an empty batch"),
        ({"startingOffsets": '{"T":{"1":0}}'}, "don't match what are assigned", "leaves out T-0"),
        ({"startingOffsets": '{"T":{"0":9}}'}, "Lost task", "T-0 is 9, which is behind the end"),
        ({"endingOffsets": '{"T":{"0":-2}}'}, "can't be earliest for batch", "is -2 (earliest)"),
        ({"startingTimestamp": "-5"}, "No offset matched", "startingTimestamp='-5'"),
        ({"minPartitions": "0"}, "minPartitions", "minPartitions='0'"),
        ({"kafka.auto.offset.reset": "latest"}, "auto.offset.reset", "auto.offset.reset"),
        ({"kafka.key.deserializer": "x"}, "key.deserializer", "key.deserializer"),
        ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit", "enable.auto.commit"),
        ({"kafka.interceptor.classes": "x"}, "interceptor.classes", "interceptor.classes"),
    ],
)
def test_both_connectors_refuse(
    official: SparkSession,
    broker: LiveBroker,
    make_topic: MakeTopic,
    options: dict[str, str],
    theirs: str,
    ours: str,
) -> None:
    topic = make_topic()
    given = {name: value.replace("T", topic) for name, value in options.items()}
    if options and not {"subscribe", "assign"} & set(options):
        given["subscribe"] = topic
    for connector, reason in ((OFFICIAL, theirs), (OURS, ours)):
        outcome = read(official, connector, broker.bootstrap, given)
        assert outcome.rows is None, f"{connector} accepts {given}"
        assert reason.replace("T-0", f"{topic}-0") in outcome.error
