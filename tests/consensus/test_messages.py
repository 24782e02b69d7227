"""Messages between nodes as plain values: a round trip, and malformed ones are refused."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka import consensus
from minikafka.consensus.messages import (
    EPOCH_MAX,
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    DirectoryOf,
    JoinRequest,
    LeaderHint,
    SnapshotRequest,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)

numbers = st.integers(0, 2**63 - 1)
epochs = st.integers(0, EPOCH_MAX)
directories = st.binary(max_size=16)
append_requests = st.builds(
    lambda numbers, payloads, directory, has_voter_set: AppendRequest(
        numbers[-1],
        7,
        numbers[0],
        5,
        tuple(map(consensus.Entry, numbers[1:-1], payloads)),
        directory,
        has_voter_set,
    ),
    st.lists(epochs, min_size=2, max_size=6).map(sorted),
    st.lists(st.binary(max_size=20), min_size=4, max_size=4),
    directories,
    st.booleans(),
)
messages = st.one_of(
    st.builds(
        VoteRequest,
        epochs,
        epochs,
        numbers,
        st.booleans(),
        st.lists(st.builds(DirectoryOf, numbers, directories), max_size=3).map(tuple),
        directories,
    ),
    st.builds(
        VoteResponse, epochs, epochs, st.booleans(), st.booleans(), directories, st.booleans()
    ),
    append_requests,
    st.builds(
        AppendResponse,
        epochs,
        st.booleans(),
        numbers,
        numbers,
        epochs,
        directories,
        st.booleans(),
        numbers,
    ),
    st.builds(
        SnapshotRequest, epochs, numbers, epochs, numbers, numbers, st.binary(), st.booleans()
    ),
    st.builds(SnapshotResponse, epochs, numbers, numbers),
    st.builds(JoinRequest, epochs),
    st.builds(CampaignRequest, epochs),
    st.builds(LeaderHint, epochs, numbers, st.text(max_size=9), numbers),
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


@pytest.mark.parametrize(
    "message",
    [
        VoteRequest(EPOCH_MAX + 1, 1, 1, False),
        VoteRequest(2, EPOCH_MAX + 1, 1, True),
        VoteResponse(2**63 - 1, 1, False, False),
        AppendRequest(3, 1, 1, 1, (consensus.Entry(EPOCH_MAX + 1, b""),)),
        AppendRequest(3, 1, 1, 1, (consensus.Entry(4, b""),)),
        AppendRequest(3, 1, 2, 1, (consensus.Entry(1, b""),)),
        AppendRequest(3, 1, 4, 1, ()),
        JoinRequest(EPOCH_MAX + 1),
    ],
)
def test_epochs_that_no_quorum_can_have_are_refused(message: VoteRequest) -> None:
    with pytest.raises(consensus.MalformedQuorumMessage):
        consensus.decode_message(consensus.encode_message(message))
