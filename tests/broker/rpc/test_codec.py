"""Messages between nodes as they are decoded: of another version, or malformed."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgpack
import pytest

from minikafka.broker.rpc import operations
from minikafka.broker.rpc.codec import AtMost, Codec, MalformedFieldsError, Row
from minikafka.protocol.errors import ErrorCode

POSITION = (3, b"i" * 16, 0, 1, 2, 1, 0)
FETCH = (7, 0, 5, 500, 1, 1000, 100)


@pytest.mark.parametrize(
    ("codec", "fields"),
    [
        (operations.REPLICA_FETCH.request, None),
        (operations.REPLICA_FETCH.request, (1, 2)),
        (operations.REPLICA_FETCH.request, ("x",) * 10),
        (operations.REPLICA_FETCH.request, (*FETCH, ((1, 2),), (), ())),
        (operations.REPLICA_FETCH.request, (*FETCH, (), ("1",), ())),
        (operations.REPLICA_FETCH.request, (*FETCH, (), 1, ())),
        (operations.REPLICA_FETCH.answer, ("ok", ())),
        (operations.REPLICA_FETCH.answer, (0, ((1, 2, 3),))),
        (operations.REPLICA_FETCH_WAKE.message, None),
        (operations.WRITE_MARKERS.request, None),
        (operations.WRITE_MARKERS.request, ()),
        (operations.WRITE_MARKERS.request, (7, 3, 5, 2, "yes", ())),
        (operations.WRITE_MARKERS.request, (7, 3, 5, 2, True, (("t",),))),
        (operations.WRITE_MARKERS.request, (7, 3, 5, 2, True, ("t0",))),
        (operations.WRITE_MARKERS.request, (7, 3, 5, 2, True, (("t", 0),) * 20_001)),
        (operations.WRITE_MARKERS.answer, None),
        (operations.WRITE_MARKERS.answer, ("0",)),
        (operations.CONFIRM_TRANSACTION.request, None),
        (operations.CONFIRM_TRANSACTION.request, ()),
        (operations.CONFIRM_TRANSACTION.request, ("job-1", 7, 3, (("t", 0),), 1)),
        (operations.CONFIRM_TRANSACTION.request, ("job-1", 7, 3, (("t",),), True)),
        (operations.CONFIRM_TRANSACTION.request, ("job-1", 7, 3, (), True, (("t", "id"),))),
        (operations.CONFIRM_TRANSACTION.answer, "0"),
        (operations.HEARTBEAT.answer, None),
        (operations.HEARTBEAT.answer, (0, None, 7)),
        (operations.HEARTBEAT.answer, (0, (True, 0, True))),
    ],
)
def test_malformed_fields_are_refused(codec: Codec[Any], fields: Any) -> None:
    with pytest.raises(MalformedFieldsError):
        codec.decode(fields)


class Item(NamedTuple):
    name: str
    size: int = 8


class Today(NamedTuple):
    number: int
    items: Annotated[tuple[Item, ...], AtMost(3)] = ()
    note: str | None = None


class Tomorrow(NamedTuple):
    number: int
    items: tuple[tuple[Any, ...], ...]
    note: str | None
    new: bytes


def test_fields_of_a_newer_version_are_ignored() -> None:
    newer = Tomorrow(1, (("a", 2, "colour"), ("b", 3, "colour")), None, b"new")
    assert Row(Today).decode(tuple(newer)) == Today(1, (Item("a", 2), Item("b", 3)))


def test_fields_that_an_older_version_does_not_send_have_their_defaults() -> None:
    assert Row(Today).decode((1,)) == Today(1, (), None)
    assert Row(Today).decode([1, [["a"]]]) == Today(1, (Item("a", 8),))
    with pytest.raises(MalformedFieldsError, match="at least 1"):
        Row(Today).decode(())


def test_sequences_have_a_limit() -> None:
    assert len(Row(Today).decode((1, (("a", 1),) * 3)).items) == 3
    with pytest.raises(MalformedFieldsError, match="at most 3"):
        Row(Today).decode((1, (("a", 1),) * 4))


def test_an_unknown_error_code_is_an_unknown_error() -> None:
    decoded = operations.WRITE_MARKERS.answer.decode((0, 30_000))
    assert decoded.error_codes == (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_refusal_carries_its_message_and_no_result() -> None:
    codec = operations.REGISTER.answer
    refused = operations.ControllerAnswer[operations.Registered](
        ErrorCode.INVALID_REGISTRATION, None, "no", 7
    )
    sent = msgpack.packb(codec.encode(refused))
    assert codec.decode(msgpack.unpackb(sent, use_list=False)) == refused
    assert codec.decode((30_000, None, 7)).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
