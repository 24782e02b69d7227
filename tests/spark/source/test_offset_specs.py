"""Where to start and end, as users write it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.types import TopicPartition
from pyspark_minikafka import offset_specs
from pyspark_minikafka.errors import OptionError
from pyspark_minikafka.offset_specs import OffsetSpec, SpecKind
from pyspark_minikafka.options import Options
from pyspark_minikafka.source_options import batch_options


def starting(**given: str) -> OffsetSpec:
    return offset_specs.starting(Options(given), SpecKind.EARLIEST)


def test_offsets_of_each_partition_are_json() -> None:
    spec = starting(startingOffsets='{"a":{"0":23,"1":-1},"b":{"0":-2}}')
    assert spec.kind is SpecKind.OFFSETS
    assert spec.of_partition == {
        TopicPartition("a", 0): 23,
        TopicPartition("a", 1): -1,
        TopicPartition("b", 0): -2,
    }


def test_words_are_case_insensitive() -> None:
    assert starting(startingOffsets="Latest").kind is SpecKind.LATEST
    assert starting(startingOffsets="EARLIEST").kind is SpecKind.EARLIEST
    assert starting().kind is SpecKind.EARLIEST


def test_a_timestamp_for_all_overrides_timestamps_which_override_offsets() -> None:
    given = {"startingOffsets": "latest"}
    assert starting(**given).kind is SpecKind.LATEST
    given["startingOffsetsByTimestamp"] = '{"a":{"0":1000}}'
    spec = starting(**given)
    assert (spec.kind, spec.of_partition) == (SpecKind.TIMESTAMPS, {TopicPartition("a", 0): 1000})
    given["startingTimestamp"] = "2000"
    spec = starting(**given)
    assert (spec.kind, spec.timestamp_ms) == (SpecKind.TIMESTAMP, 2000)


@pytest.mark.parametrize(
    "text",
    [
        "{x",
        "[]",
        "5",
        '"latest "',
        '{"a":5}',
        '{"a":[0]}',
        '{"a":{"0":"5"}}',
        '{"a":{"x":5}}',
        '{"a":{"0":1.5}}',
        '{"a":{"0":true}}',
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_malformed_json_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r"^startingOffsets=.* it is JSON like") as caught:
        starting(startingOffsets=text)
    assert '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}' in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["{x", '{"a":{"0":1}}', "{}", '{"a":[]}', '{"a":["0"]}'])
def test_malformed_partitions_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r"^assign=.* it is JSON like"):
        offset_specs.assigned(text)


def test_offsets_below_minus_two_are_refused() -> None:
    with pytest.raises(OptionError, match="partition 0 of topic 'a' is -3; it is at least -2"):
        starting(startingOffsets='{"a":{"0":-3}}')
    with pytest.raises(OptionError, match="is -1; it is at least 0"):
        starting(startingOffsetsByTimestamp='{"a":{"0":-1}}')


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "a batch would read nothing"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "is -1 (latest), which a batch does not accept"),
        ({"endingOffsets": "earliest"}, "makes an empty batch"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "is -2 (earliest), which a batch does not accept"),
    ],
)
def test_a_batch_must_not_be_empty_by_its_options(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        batch_options(Options({"kafka.bootstrap.servers": "b:1", "subscribe": "a", **given}))
    assert message in str(caught.value)


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.dictionaries(st.integers(0, 99), st.integers(-2, 1 << 62), min_size=1),
        min_size=1,
    )
)
def test_any_offsets_are_read_as_they_are_written(given: dict[str, dict[int, int]]) -> None:
    found = offset_specs.by_partition("startingOffsets", json.dumps(given), at_least=-2)
    assert found == {
        TopicPartition(topic, partition): offset
        for topic, partitions in given.items()
        for partition, offset in partitions.items()
    }
