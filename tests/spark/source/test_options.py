"""The options of a read: names, values and error messages."""

from __future__ import annotations

import pickle

import pytest

from minikafka_client.sasl import Plain, ScramSha512
from minikafka_client.types import IsolationLevel, TopicPartition
from pyspark_minikafka.errors import OptionError
from pyspark_minikafka.kafka_properties import REFUSED, KafkaProperties, kafka_properties
from pyspark_minikafka.options import SOURCE_OPTIONS, Options
from pyspark_minikafka.source_options import (
    SourceOptions,
    batch_options,
    general_options,
    stream_options,
)

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def batch(**given: str) -> SourceOptions:
    return batch_options(Options({**BASE, **given}))


def stream(**given: str) -> SourceOptions:
    return stream_options(Options({**BASE, **given}))


def properties(**given: str) -> KafkaProperties:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    return kafka_properties(Options({**BASE, **named}))


def test_option_names_are_case_insensitive() -> None:
    options = batch(MINPARTITIONS="3", IncludeHeaders="True", FailOnDataLoss="false")
    assert options.min_partitions == 3
    assert options.include_headers
    assert not options.fail_on_data_loss


def test_defaults_are_those_of_the_official_connector() -> None:
    options = stream()
    assert options.starting.kind.value == "latest"
    assert batch().starting.kind.value == "earliest"
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert options.patience_ms == 120_000
    assert options.max_offsets_per_trigger is None
    assert not options.uses_latest_without_timestamp


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("startingOfsets", "startingOffsets"),
        ("subscribepatern", "subscribePattern"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("includeheader", "includeHeaders"),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(wrong: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"did you mean '{meant}'"):
        batch(**{wrong: "x"})


@pytest.mark.parametrize("name", ["zzz", "kafka.foo.bar", "kafka.zzz"])
def test_no_suggestion_is_made_for_an_option_unlike_any_other(name: str) -> None:
    with pytest.raises(OptionError, match=rf"there is no option '{name}'$"):
        batch(**{name: "1"})


def test_a_path_is_refused_with_the_option_that_was_meant() -> None:
    with pytest.raises(OptionError, match=r"'orders' was given as a path.*'subscribe'.*'topic'"):
        batch(path="orders")


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ("localhost", r"'localhost' has no port; did you mean 'localhost:9092'\?"),
        ("a:1, [::1]", r"'\[::1\]' has no port; did you mean '\[::1\]:9092'\?"),
        ("a:1,b:zero", "bootstrap server 'b:zero' is not 'host:port'"),
        (" , ", "is missing"),
    ],
)
def test_bootstrap_servers_have_ports(servers: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        batch(**{"kafka.bootstrap.servers": servers})


def test_empty_bootstrap_servers_are_skipped_as_kafka_does() -> None:
    assert batch(**{"kafka.bootstrap.servers": "a:1, ,b:2,"}).kafka.bootstrap == "a:1,b:2"


@pytest.mark.parametrize("name", SOURCE_OPTIONS)
def test_no_option_may_be_empty(name: str) -> None:
    given = {"kafka.bootstrap.servers": "b:1", name: ""}
    if name not in ("assign", "subscribe", "subscribePattern"):
        given["subscribe"] = "orders"
    if name == "groupIdPrefix":  # ignored, because there are no groups
        assert general_options(Options(given)).topics.topics == ("orders",)
        return
    with pytest.raises(OptionError):
        general_options(Options(given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minPartitions": "0"}, "minPartitions='0'; it is a whole number, at least 1"),
        ({"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition='x'; it is a whole number"),
        ({"minPartitions": "1_000"}, "minPartitions='1_000'; it is a whole number"),
        ({"minPartitions": "\u0663"}, "it is a whole number"),
        ({"maxOffsetsPerTrigger": str(1 << 63)}, "it is a whole number"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp='yesterday'; it is a whole"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss='maybe'; it is true or false"),
        ({"maxTriggerDelay": "15 parsecs"}, "maxTriggerDelay='15 parsecs'; it is a number with"),
        ({"isolationLevel": "dirty"}, "it is read_committed or read_uncommitted"),
        ({"startingOffsetsByTimestampStrategy": "no"}, "it is error or latest"),
        ({"assign": '{"t":[0]}'}, "assign and subscribe are both set"),
        ({"columns": "value,ofset"}, "there is no column 'ofset'; did you mean 'offset'"),
        ({"columns": "value,value"}, "a column is named twice"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_expected(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        batch(**given)
    assert message in str(caught.value)


def test_topics_must_be_chosen() -> None:
    with pytest.raises(OptionError, match="set one of assign, subscribe, subscribePattern"):
        batch_options(Options({"kafka.bootstrap.servers": "b:1"}))


def test_topics_are_chosen_in_three_ways() -> None:
    base = {"kafka.bootstrap.servers": "b:1"}
    found = general_options(Options({**base, "subscribe": " b, a,b "})).topics
    assert found.topics == ("a", "b")
    found = general_options(Options({**base, "assign": '{"t":[2,0,2]}'})).topics
    assert found.assigned == (TopicPartition("t", 0), TopicPartition("t", 2))
    found = general_options(Options({**base, "subscribePattern": "or.*"})).topics
    assert found.pattern == "or.*"
    with pytest.raises(OptionError, match="is not a regular expression of Java's"):
        general_options(Options({**base, "subscribePattern": "("}))


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batches"):
        stream(endingOffsets="latest")


def test_the_minimum_must_not_exceed_the_maximum() -> None:
    with pytest.raises(OptionError, match="is greater than maxOffsetsPerTrigger"):
        stream(minOffsetsPerTrigger="11", maxOffsetsPerTrigger="10")


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15m", 900_000), ("2h", 7_200_000), ("500ms", 500), ("7", 7)]
)
def test_delays_have_the_format_of_spark(text: str, milliseconds: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_only_committed_records_are_read_by_default() -> None:
    assert batch().isolation_level is IsolationLevel.READ_COMMITTED
    for name in ("isolationLevel", "kafka.isolation.level"):
        level = batch(**{name: "read_uncommitted"}).isolation_level
        assert level is IsolationLevel.READ_UNCOMMITTED


# --- properties of Kafka's clients ----------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_properties_that_belong_to_the_connector_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"kafka.{name} cannot be set; "):
        batch(**{f"kafka.{name}": "x"})


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        batch_options(Options({"subscribe": "orders"}))


def test_an_unknown_property_is_refused_with_a_suggestion() -> None:
    with pytest.raises(OptionError, match=r"did you mean 'kafka\.request\.timeout\.ms'"):
        batch(**{"kafka.request.timeout": "5"})


def test_properties_are_translated_to_client_options() -> None:
    found = properties(
        request_timeout_ms="5000",
        client_id="me",
        check_crcs="false",
        fetch_max_bytes="1000",
        acks="1",
        compression_type="zstd",
        group_id="nobody",
        fetch_min_bytes="1",
    )
    assert found.bootstrap == "localhost:9092"
    assert found.connection_options() == {"request_timeout_ms": 5000, "client_id": "me"}
    assert found.reader_options() == {"check_crcs": False, "prefetch_size_bytes_max": 1000}
    assert found.producer_options() == {"acks": 1, "compression_type": "zstd"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"request_timeout_ms": "soon"}, "kafka.request.timeout.ms='soon'; it is a whole number"),
        ({"fetch_min_bytes": "x"}, "kafka.fetch.min.bytes='x'; it is a whole number"),
        ({"max_poll_records": "1_0"}, "kafka.max.poll.records='1_0'; it is a whole number"),
        ({"retries": ""}, "kafka.retries=''; it is a whole number"),
        ({"allow_auto_create_topics": "no"}, "it is true or false"),
        ({"acks": "2"}, "kafka.acks='2'; it is all, -1, 0 or 1"),
        ({"security_protocol": "TLS"}, "kafka.security.protocol='TLS'; it is one of PLAINTEXT"),
        (
            {"security_protocol": "SASL_PLAINTEXT"},
            "kafka.sasl.mechanism='GSSAPI'; it is one of PLAIN",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
            "kafka.sasl.mechanism='PLAIN' needs a user",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_type": "JKS"},
            "kafka.ssl.truststore.type='JKS' without a file; set ssl.truststore.location",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/nowhere.pem"},
            "kafka.ssl.*: the files cannot be used",
        ),
    ],
)
def test_a_wrong_property_is_refused_on_the_driver(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        properties(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "jaas",
    [
        'org.apache.kafka.Login required username="alice" password="se\\"cret";',
        "org.apache.kafka.Login required username='alice' password='se\"cret';",
    ],
)
def test_a_user_is_parsed_from_a_jaas_configuration(jaas: str) -> None:
    found = properties(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas
    )
    sasl = found.connection_options()["sasl"]
    assert isinstance(sasl, Plain)
    assert next(sasl.authenticate("host")) == b'\0alice\0se"cret'


def test_a_user_can_be_set_by_name_and_password() -> None:
    found = properties(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="alice",
        sasl_password="secret",
    )
    assert isinstance(found.connection_options()["sasl"], ScramSha512)


def test_spaces_around_a_property_are_ignored() -> None:
    found = properties(request_timeout_ms=" 5000 ", acks=" all ")
    assert found.connection_options()["request_timeout_ms"] == 5000
    assert found.producer_options() == {"acks": "all"}


def test_properties_can_be_pickled_and_their_repr_has_no_passwords() -> None:
    found = properties(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="secret",
    )
    assert pickle.loads(pickle.dumps(found)) == found
    assert "secret" not in repr(found)


def test_options_that_spark_adds_to_a_write_are_known() -> None:
    assert "queryName" in Options({"queryname": "alerts", "checkpointlocation": "/tmp/x"})
