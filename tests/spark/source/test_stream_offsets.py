"""Offsets in a checkpoint: readable, versioned, and those of Spark's own connector too."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.types import TopicPartition
from pyspark_minikafka.stream_offsets import (
    INITIAL,
    METADATA_KEY,
    StreamOffset,
    StreamOffsetError,
    from_json,
)

T0 = TopicPartition("t", 0)

partitions = st.builds(
    TopicPartition, st.text("abc._-", min_size=1, max_size=4), st.integers(0, 20)
)
numbers = st.dictionaries(partitions, st.integers(0, 1 << 62), max_size=5)


@given(
    st.builds(
        StreamOffset,
        offsets=numbers,
        starts=numbers,
        topic_ids=st.dictionaries(st.text("abc", min_size=1), st.binary(min_size=16, max_size=16)),
        leader_epochs=numbers,
    )
)
def test_an_offset_is_read_as_it_was_written(offset: StreamOffset) -> None:
    written = json.dumps(offset.to_json())
    assert from_json(json.loads(written)) == offset
    assert json.dumps(from_json(json.loads(written)).to_json()) == written, "Spark compares texts"


@given(numbers)
def test_offsets_are_where_sparks_own_connector_puts_them(
    offsets: dict[TopicPartition, int],
) -> None:
    written = StreamOffset(offsets, offsets, {"t": bytes(16)}, offsets).to_json()
    del written[METADATA_KEY]
    assert {
        TopicPartition(topic, int(partition)): offset
        for topic, of_topic in written.items()
        for partition, offset in of_topic.items()
    } == offsets


def test_the_initial_offset_has_no_offsets() -> None:
    assert INITIAL.to_json() == {METADATA_KEY: {"version": 1, "initial": True}}
    assert from_json(INITIAL.to_json()) is INITIAL


def test_offsets_of_sparks_own_connector_are_parsed() -> None:
    assert from_json({"t": {"0": 23}}) == StreamOffset({T0: 23})


def test_the_format_of_version_1() -> None:
    offset = StreamOffset({T0: 23}, {T0: 5}, {"t": bytes(range(16))}, {T0: 3})
    assert json.dumps(offset.to_json()) == (
        '{"t": {"0": 23}, "$minikafka": {"version": 1, "from": {"t": {"0": 5}}, '
        '"topicIds": {"t": "000102030405060708090a0b0c0d0e0f"}, "leaderEpochs": {"t": {"0": 3}}}}'
    )


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(StreamOffsetError, match=r"offsets of version 2, this one reads up to 1"):
        from_json({METADATA_KEY: {"version": 2}})


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {"t": 5},
        {"t": {"x": 5}},
        {"t": {"0": "5"}},
        {"t": {"0": -2}},
        {METADATA_KEY: 5},
        {METADATA_KEY: {}},
        {METADATA_KEY: {"version": "1"}},
        {METADATA_KEY: {"version": 1, "topicIds": {"t": "zz"}}},
        {"logOffset": 5},
    ],
)
def test_offsets_of_another_source_are_refused_with_a_remedy(given: object) -> None:
    with pytest.raises(
        StreamOffsetError, match="which does not belong to this source; use another"
    ):
        from_json(given)
