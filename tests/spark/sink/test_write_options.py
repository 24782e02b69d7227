"""Options and columns of a write, and error messages for wrong ones."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pyspark_minikafka.errors import OptionError, SchemaError
from pyspark_minikafka.options import Options
from pyspark_minikafka.sink import make_batch_writer, make_stream_writer
from pyspark_minikafka.sink.at_least_once import AtLeastOnceWriter
from pyspark_minikafka.sink.errors import UnsupportedWriteError
from pyspark_minikafka.sink.exactly_once import ExactlyOnceWriter
from pyspark_minikafka.sink.input_schema import InputColumns, input_columns
from pyspark_minikafka.sink.settings import batch_settings, stream_settings

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
TEXTS = StructType([StructField("key", StringType()), StructField("value", StringType())])
ALL = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("headers", ArrayType(HEADER)),
        StructField("other", LongType()),
        StructField("key", StringType()),
        StructField("topic", StringType()),
        StructField("value", BinaryType()),
    ]
)
VALUE = StructType([StructField("value", StringType())])


def with_value(name: str, data_type: DataType) -> StructType:
    return StructType([*VALUE.fields, StructField(name, data_type)])


def options(**given: str) -> Options:
    return Options({"kafka.bootstrap.servers": "h:1", **given})


def test_columns_are_found_by_their_names() -> None:
    assert input_columns(ALL, None) == InputColumns(5, 3, 1, 4, 0)
    assert input_columns(VALUE, "t") == InputColumns(0)


def test_the_option_topic_overrides_the_column() -> None:
    assert input_columns(ALL, "t").topic is None


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        (StructType([StructField("key", StringType())]), "t", "'value' is missing"),
        (VALUE, None, "option 'topic' is missing"),
        (
            StructType([StructField("value", IntegerType())]),
            "t",
            "'value' is int; it must be string or binary",
        ),
        (with_value("key", LongType()), "t", "'key' is bigint; it must be string or binary"),
        (with_value("topic", BinaryType()), None, "'topic' is binary; it must be string"),
        (with_value("partition", LongType()), "t", "'partition' is bigint; it must be int"),
        (with_value("headers", BinaryType()), "t", "must be array<struct<key:string"),
        (with_value("headers", ArrayType(TEXTS)), "t", "must be array"),
    ],
)
def test_wrong_columns_are_refused(columns: StructType, topic: str | None, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        input_columns(columns, topic)


def test_topics_cannot_be_overwritten() -> None:
    with pytest.raises(UnsupportedWriteError, match=r"mode\('append'\)"):
        make_batch_writer(options(topic="t"), VALUE, overwrite=True)
    make_stream_writer(options(topic="t"), VALUE, overwrite=True)


def test_streams_are_written_exactly_once_by_default() -> None:
    given = options(topic="t")
    assert isinstance(make_stream_writer(given, VALUE, overwrite=False), ExactlyOnceWriter)
    given = options(topic="t", deliveryGuarantee="At-Least-Once")
    assert isinstance(make_stream_writer(given, VALUE, overwrite=False), AtLeastOnceWriter)
    assert batch_settings(options(topic="t")).guarantee == "at-least-once"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"deliveryGuarantee": "once"}, "exactly-once or at-least-once"),
        ({"kafka.transactional.id": "x"}, "set sinkId"),
        ({"topic": " "}, "topic is empty"),
        ({"sinkId": "x" * 201}, "201 characters"),
        ({"kafka.acks": "1"}, "needs kafka.acks=all"),
        ({"kafka.compression.type": "zip"}, "none, gzip, snappy, lz4, zstd"),
        ({"kafka.key.serializer": "x"}, "cannot be set"),
        ({"twoPhaseCommit": "yes"}, "auto or required or off"),
        ({"kafka.partitioner.class": "com.example.Mine"}, "Java classes cannot be used"),
        ({"kafka.partitioner.ignore.keys": "1"}, "true or false"),
        ({"path": "orders"}, "'orders' was given as a path"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        stream_settings(options(**{"topic": "t", **given}))


@pytest.mark.parametrize(
    ("given", "partitioning"),
    [
        ({}, "default"),
        ({"kafka.partitioner.ignore.keys": "false"}, "default"),
        ({"kafka.partitioner.ignore.keys": "true"}, "sticky"),
        (
            {"kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
            "round-robin",
        ),
    ],
)
def test_kafkas_own_partitioners_can_be_chosen(given: dict[str, str], partitioning: str) -> None:
    settings = stream_settings(options(**{"topic": "t", **given}))
    assert settings.kafka.partitioning() == partitioning


def test_a_batch_cannot_be_written_exactly_once() -> None:
    with pytest.raises(OptionError, match="availableNow"):
        batch_settings(options(topic="t", deliveryGuarantee="exactly-once"))


def test_producer_properties_are_used() -> None:
    settings = stream_settings(
        options(
            topic="t",
            deliveryGuarantee="at-least-once",
            **{
                "kafka.acks": "1",
                "kafka.batch.size": "1000",
                "kafka.compression.type": "lz4",
                "kafka.request.timeout.ms": "5",
            },
        )
    )
    found = settings.producer_options()
    assert (found["acks"], found["batch_size"], found["compression_type"]) == (1, 1000, "lz4")
    assert found["request_timeout_ms"] == 5
    assert (settings.batch_size_bytes, settings.compression.name) == (1000, "LZ4")
