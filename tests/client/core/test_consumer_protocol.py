"""The bytes that members exchange are Java's."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.exceptions import MalformedMessageError
from minikafka_client.core import consumer_protocol
from minikafka_client.types import TopicPartition

TOPIC_PARTITIONS = st.lists(
    st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9)), unique=True, max_size=9
)


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def test_a_subscription_is_version_3_byte_for_byte() -> None:
    subscription = consumer_protocol.Subscription(
        ["t2", "t1"],
        owned_partitions=[TopicPartition("t1", 1), TopicPartition("t1", 0)],
        generation_id=7,
        user_data=b"ab",
        rack_id="r",
    )
    assert subscription.encode() == (
        pack(">h", 3)
        + (pack(">i", 2) + text("t1") + text("t2"))
        + (pack(">i", 2) + b"ab")
        + (pack(">i", 1) + text("t1") + pack(">iii", 2, 0, 1))
        + pack(">i", 7)
        + text("r")
    )


def test_an_assignment_is_version_3_byte_for_byte() -> None:
    partitions = [TopicPartition("t", 2), TopicPartition("t", 0)]
    expected = pack(">hi", 3, 1) + text("t") + pack(">iii", 2, 0, 2) + pack(">i", -1)
    assert consumer_protocol.encode_assignment(partitions) == expected


@pytest.mark.parametrize(
    ("version", "rest", "owned", "generation"),
    [
        (0, b"", (), -1),
        (1, pack(">i", 1) + text("t") + pack(">ii", 1, 4), (TopicPartition("t", 4),), -1),
        (2, pack(">ii", 0, 9), (), 9),
        (3, pack(">ii", 0, 9) + pack(">h", -1), (), 9),
        (8, pack(">ii", 0, 9) + pack(">h", -1) + b"from the future", (), 9),
    ],
)
def test_every_version_of_a_subscription_is_read(
    version: int, rest: bytes, owned: tuple[TopicPartition, ...], generation: int
) -> None:
    sent = pack(">hi", version, 1) + text("t") + pack(">i", -1) + rest
    subscription = consumer_protocol.Subscription.decode(sent, group_instance_id="host")
    assert subscription.topics == ("t",)
    assert subscription.owned_partitions == owned
    assert subscription.generation_id == generation
    assert subscription.group_instance_id == "host"


@given(partitions=TOPIC_PARTITIONS, user_data=st.none() | st.binary(max_size=9))
def test_an_assignment_comes_back(
    partitions: list[TopicPartition], user_data: bytes | None
) -> None:
    decoded, decoded_user_data = consumer_protocol.decode_assignment(
        consumer_protocol.encode_assignment(partitions, user_data)
    )
    assert (sorted(decoded), decoded_user_data) == (sorted(partitions), user_data)


def test_no_bytes_are_no_partitions() -> None:
    assert consumer_protocol.decode_assignment(b"") == ((), None)


@pytest.mark.parametrize("sent", [b"\0", b"\xff\xff", b"\0\1\0"])
def test_other_bytes_are_malformed(sent: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        consumer_protocol.Subscription.decode(sent)
    with pytest.raises(MalformedMessageError):
        consumer_protocol.decode_assignment(sent)
