"""The options of a read: names, values, and what is said of wrong ones."""

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


def test_names_are_taken_in_any_case() -> None:
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
def test_an_unknown_option_is_told_with_the_nearest_one(wrong: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"did you mean '{meant}'"):
        batch(**{wrong: "x"})


def test_an_option_like_no_other_is_told_without_a_guess() -> None:
    with pytest.raises(OptionError, match=r"there is no option 'zzz'$"):
        batch(zzz="1")


@pytest.mark.parametrize("name", SOURCE_OPTIONS)
def test_no_option_is_an_empty_text(name: str) -> None:
    given = {"kafka.bootstrap.servers": "b:1", name: ""}
    if name not in ("assign", "subscribe", "subscribePattern"):
        given["subscribe"] = "orders"
    if name == "groupIdPrefix":  # there are no groups, so nobody looks at it
        assert general_options(Options(given)).topics.topics == ("orders",)
        return
    with pytest.raises(OptionError):
        general_options(Options(given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minPartitions": "0"}, "minPartitions='0'; it is a whole number, at least 1"),
        ({"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition='x'; it is a whole number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss='maybe'; it is true or false"),
        ({"maxTriggerDelay": "15 parsecs"}, "maxTriggerDelay='15 parsecs'; it is a number with"),
        ({"isolationLevel": "dirty"}, "it is read_committed or read_uncommitted"),
        ({"startingOffsetsByTimestampStrategy": "no"}, "it is error or latest"),
        ({"assign": '{"t":[0]}'}, "assign and subscribe are both set"),
        ({"columns": "value,ofset"}, "there is no column 'ofset'; did you mean 'offset'"),
        ({"columns": "value,value"}, "a column is named twice"),
    ],
)
def test_a_wrong_value_is_told_with_what_it_should_be(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        batch(**given)
    assert message in str(caught.value)


def test_topics_have_to_be_chosen() -> None:
    with pytest.raises(OptionError, match="Set one of assign, subscribe, subscribePattern"):
        batch_options(Options({"kafka.bootstrap.servers": "b:1"}))


def test_topics_are_chosen_in_three_ways() -> None:
    base = {"kafka.bootstrap.servers": "b:1"}
    found = general_options(Options({**base, "subscribe": " b, a,b "})).topics
    assert found.topics == ("a", "b")
    found = general_options(Options({**base, "assign": '{"t":[2,0,2]}'})).topics
    assert found.assigned == (TopicPartition("t", 0), TopicPartition("t", 2))
    found = general_options(Options({**base, "subscribePattern": "or.*"})).topics
    assert found.pattern == "or.*"
    with pytest.raises(OptionError, match="is no regular expression"):
        general_options(Options({**base, "subscribePattern": "("}))


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batches"):
        stream(endingOffsets="latest")


def test_least_is_not_more_than_most() -> None:
    with pytest.raises(OptionError, match="no batch would be allowed"):
        stream(minOffsetsPerTrigger="11", maxOffsetsPerTrigger="10")


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15m", 900_000), ("2h", 7_200_000), ("500ms", 500), ("7", 7)]
)
def test_a_delay_is_written_as_spark_writes_it(text: str, milliseconds: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_committed_records_are_read_unless_said_otherwise() -> None:
    assert batch().isolation_level is IsolationLevel.READ_COMMITTED
    for name in ("isolationLevel", "kafka.isolation.level"):
        level = batch(**{name: "read_uncommitted"}).isolation_level
        assert level is IsolationLevel.READ_UNCOMMITTED


# --- properties of Kafka's clients ----------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_properties_that_belong_to_the_connector_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"kafka.{name} cannot be set; "):
        batch(**{f"kafka.{name}": "x"})


def test_bootstrap_servers_have_to_be_given() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        batch_options(Options({"subscribe": "orders"}))


def test_a_property_that_kafka_does_not_know_is_told_with_the_nearest_one() -> None:
    with pytest.raises(OptionError, match=r"did you mean 'kafka\.request\.timeout\.ms'"):
        batch(**{"kafka.request.timeout": "5"})


def test_properties_become_options_of_our_client() -> None:
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
    assert found.producer_options() == {"acks": 1, "compression": "zstd"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"request_timeout_ms": "soon"}, "kafka.request.timeout.ms='soon'; it is a whole number"),
        ({"acks": "2"}, "kafka.acks='2'; it is all, -1, 0 or 1"),
        ({"security_protocol": "TLS"}, "kafka.security.protocol='TLS'; it is one of PLAINTEXT"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "this connector has PLAIN, SCRAM-SHA-256"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
            "PLAIN needs a user",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_type": "JKS"},
            "only PEM can be read",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/nowhere.pem"},
            "the kafka.ssl.* files cannot be used",
        ),
    ],
)
def test_a_wrong_property_is_told_at_once(given: dict[str, str], message: str) -> None:
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
def test_a_user_is_read_from_javas_configuration(jaas: str) -> None:
    found = properties(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas
    )
    sasl = found.connection_options()["sasl"]
    assert isinstance(sasl, Plain)
    assert next(sasl.authenticate("host")) == b'\0alice\0se"cret'


def test_a_user_may_be_given_by_name_and_password() -> None:
    found = properties(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="alice",
        sasl_password="secret",
    )
    assert isinstance(found.connection_options()["sasl"], ScramSha512)


def test_spaces_around_a_property_do_not_matter() -> None:
    found = properties(request_timeout_ms=" 5000 ", acks=" all ")
    assert found.connection_options()["request_timeout_ms"] == 5000
    assert found.producer_options() == {"acks": "all"}


def test_properties_travel_to_workers_and_never_show_passwords() -> None:
    found = properties(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="secret",
    )
    assert pickle.loads(pickle.dumps(found)) == found
    assert "secret" not in repr(found)


def test_what_spark_itself_puts_among_the_options_of_a_write_is_known() -> None:
    assert "queryName" in Options({"queryname": "alerts", "checkpointlocation": "/tmp/x"})
