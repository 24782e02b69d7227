"""Messages between nodes as plain values: a round trip, and malformed ones are refused."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka import consensus
from minikafka.consensus.messages import (
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    DirectoryOf,
    JoinRequest,
    SnapshotRequest,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)

numbers = st.integers(0, 2**63 - 1)
directories = st.binary(max_size=16)
messages = st.one_of(
    st.builds(
        VoteRequest,
        numbers,
        numbers,
        numbers,
        st.booleans(),
        st.lists(st.builds(DirectoryOf, numbers, directories), max_size=3).map(tuple),
    ),
    st.builds(
        VoteResponse, numbers, numbers, st.booleans(), st.booleans(), directories, st.booleans()
    ),
    st.builds(
        AppendRequest,
        numbers,
        numbers,
        numbers,
        numbers,
        st.lists(st.builds(consensus.Entry, numbers, st.binary(max_size=20)), max_size=4).map(
            tuple
        ),
        directories,
    ),
    st.builds(
        AppendResponse,
        numbers,
        st.booleans(),
        numbers,
        numbers,
        numbers,
        directories,
        st.booleans(),
    ),
    st.builds(SnapshotRequest, numbers, numbers, numbers, numbers, numbers, st.binary()),
    st.builds(SnapshotResponse, numbers, numbers, numbers),
    st.builds(JoinRequest, numbers),
    st.builds(CampaignRequest, numbers),
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.binary(max_size=4) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=7),
    max_leaves=20,
)


@given(message=messages)
def test_a_message_survives_the_wire(message: VoteRequest) -> None:
    received = msgpack.unpackb(msgpack.packb(consensus.encode_message(message)), use_list=True)
    assert consensus.decode_message(received) == message
    assert type(consensus.decode_message(received)) is type(message)


@given(message=messages)
def test_a_message_survives_with_its_bytes_beside_it(message: VoteRequest) -> None:
    fields, attached = consensus.split_message(message)
    received = msgpack.unpackb(msgpack.packb(fields))
    assert consensus.join_message(received, memoryview(attached)) == message
    assert consensus.join_message((*received, "new"), attached) == message


@given(message=messages, replaced=st.integers(0, 9), by=plain, attached=st.binary(max_size=9))
def test_nonsense_in_two_parts_is_refused_or_another_message(
    message: VoteRequest, replaced: int, by: object, attached: bytes
) -> None:
    fields, _ = consensus.split_message(message)
    fields[replaced % len(fields)] = by
    try:
        joined = consensus.join_message(fields, attached)
    except consensus.MalformedQuorumMessage:
        return
    assert consensus.join_message(*consensus.split_message(joined)) == joined


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        [2, 1, 2, 3, 4],
        [2, 1, 2, 3, 4, 5],
        [2, 1, 2, 3, 4, [1]],
        [2, 1, 2, 3, 4, [[1]]],
        [2, 1, 2, 3, 4, [[1, 9]]],
        [2, 1, 2, 3, 4, [[1, 2], [1, 2]]],
        [2, 1, 2, 3, 4, [[1, -1]]],
        [2, 1, 2, 3, 4, [["1", 1]]],
        [4, 1, 2, 3, 4, 5],
    ],
)
def test_a_malformed_split_message_is_refused(fields: object) -> None:
    with pytest.raises(consensus.MalformedQuorumMessage):
        consensus.join_message(fields, b"abc")


@given(message=messages)
def test_fields_of_a_newer_version_are_ignored(message: VoteRequest) -> None:
    assert consensus.decode_message([*consensus.encode_message(message), b"new", [1, 2]]) == message


@given(message=messages, replaced=st.integers(0, 9), by=plain)
def test_nonsense_is_refused_or_another_message(
    message: VoteRequest, replaced: int, by: object
) -> None:
    encoded = consensus.encode_message(message)
    encoded[replaced % len(encoded)] = by
    try:
        decoded = consensus.decode_message(encoded)
    except consensus.MalformedQuorumMessage:
        return
    assert consensus.decode_message(consensus.encode_message(decoded)) == decoded


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"\x00",
        [],
        ["0", 1],
        [True, 1],
        [99, 1],
        [-1, 1],
        [0, 1, 2],  # too short
        [0, 1, 2, 3, 4],  # is_pre_vote is no boolean
        [0, -1, 2, 3, True],
        [0, 2**63, 2, 3, True],
        [0, True, 2, 3, True],
        [2, 1, 2, 3, 4, 5],  # entries are no list
        [2, 1, 2, 3, 4, [[1]]],
        [2, 1, 2, 3, 4, [[1, "text"]]],
        [2, 1, 2, 3, 4, [[-1, b""]]],
        [2, 1, 2, 3, 4, [b"entry"]],
        [4, 1, 2, 3, 4, 5, "piece"],
    ],
)
def test_a_malformed_message_is_refused(value: object) -> None:
    with pytest.raises(consensus.MalformedQuorumMessage):
        consensus.decode_message(value)
