from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import encode_response
from minikafka.protocol.messages import api_versions
from minikafka.protocol.messages import heartbeat as heartbeat_api
from minikafka.protocol.messages import metadata as metadata_api
from minikafka.protocol.schema import Message
from minikafka_client import errors
from minikafka_client.core.wire import Answer, Wire


def frame_of(response: Message, version: int, correlation_id: int) -> memoryview:
    return memoryview(b"".join(encode_response(response, version, correlation_id))[4:])


def heartbeat() -> heartbeat_api.Request:
    return heartbeat_api.Request(group_id="g", generation_id=1, member_id="m")


def submit(wire: Wire, request: Message, version: int, deadline: float = 10.0) -> list[Answer]:
    answers: list[Answer] = []
    wire.submit(request, version, deadline=deadline, on_answer=answers.append)  # type: ignore[arg-type]  # requests
    return answers


def test_pipelined_requests_are_answered_in_order() -> None:
    wire = Wire("client")
    first = submit(wire, heartbeat(), 4)
    second = submit(wire, metadata_api.Request(topics=[]), 9)
    assert len(wire) == 2
    wire.receive(frame_of(heartbeat_api.Response(error_code=27), 4, 0))
    assert (first, second) == ([heartbeat_api.Response(error_code=27)], [])
    metadata = metadata_api.Response(brokers=[], topics=[])
    wire.receive(frame_of(metadata, 9, 1))
    assert isinstance(second[0], metadata_api.Response)
    assert len(wire) == 0


def test_a_request_without_a_response_takes_a_number_but_waits_for_nothing() -> None:
    wire = Wire("client")
    wire.encode(heartbeat(), 4)
    assert len(wire) == 0
    answers = submit(wire, heartbeat(), 4)
    wire.receive(frame_of(heartbeat_api.Response(error_code=0), 4, 1))
    assert answers == [heartbeat_api.Response(error_code=0)]


def test_a_request_that_cannot_be_encoded_is_not_waited_for() -> None:
    wire = Wire("client")
    with pytest.raises(errors.UnsendableRequestError):
        submit(wire, heartbeat_api.Request(group_id="g", generation_id=2**40, member_id="m"), 4)
    assert len(wire) == 0


def test_an_answer_out_of_step_is_refused() -> None:
    wire = Wire("client")
    submit(wire, heartbeat(), 4)
    with pytest.raises(
        errors.UnreadableResponseError, match="answered request 7, but 0 is the next"
    ):
        wire.receive(frame_of(heartbeat_api.Response(error_code=0), 4, 7))


def test_an_answer_to_nothing_is_refused() -> None:
    with pytest.raises(errors.UnreadableResponseError, match="answer no request"):
        Wire("client").receive(memoryview(b"HTTP/1.1 400"))


@given(garbage=st.binary(max_size=40))
def test_garbage_is_an_unreadable_response_and_nothing_else(garbage: bytes) -> None:
    wire = Wire("client")
    answers = submit(wire, metadata_api.Request(topics=[]), 9)
    try:
        wire.receive(memoryview(bytes(4) + garbage))
    except errors.UnreadableResponseError:
        assert answers == []
    else:
        assert isinstance(answers[0], metadata_api.Response)


def test_a_refused_api_versions_is_read_in_version_0() -> None:
    wire = Wire("client")
    answers = submit(wire, api_versions.Request(), 4)
    refused = api_versions.Response(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[api_versions.ApiVersion(api_key=18, min_version=0, max_version=2)],
    )
    wire.receive(frame_of(refused, 0, 0))
    assert answers == [refused]


def test_a_carelessly_refused_api_versions_is_understood_by_its_code() -> None:
    wire = Wire("client")
    answers = submit(wire, api_versions.Request(), 4)
    wire.receive(memoryview(b"\0\0\0\0" + b"\0\x23" + b"\x01\0\x12\0\0\0\x03" + bytes(4)))
    assert answers == [api_versions.Response(error_code=35, api_keys=[])]


def test_an_api_versions_without_a_code_is_unreadable() -> None:
    wire = Wire("client")
    submit(wire, api_versions.Request(), 4)
    with pytest.raises(errors.UnreadableResponseError):
        wire.receive(memoryview(b"\0\0\0\0\0"))


def test_a_lost_connection_answers_everything() -> None:
    wire = Wire("client")
    answers = [submit(wire, heartbeat(), 4) for _ in range(3)]
    lost = errors.ConnectionLostError("gone")
    wire.fail(lost)
    assert answers == [[lost]] * 3
    assert len(wire) == 0


def test_the_oldest_request_sets_the_deadline() -> None:
    wire = Wire("client")
    assert wire.deadline() is None
    assert wire.overdue(1e9) is None
    submit(wire, heartbeat(), 4, deadline=20.0)
    submit(wire, heartbeat(), 4, deadline=5.0)
    assert wire.deadline() == 20.0
    assert wire.overdue(19.9) is None
    assert "no answer to Heartbeat (request 0)" in str(wire.overdue(20.0))


def test_numbers_wrap_before_they_turn_negative() -> None:
    wire = Wire("client")
    wire._next_correlation_id = 0x7FFFFFFF
    answers = submit(wire, heartbeat(), 4)
    submit(wire, heartbeat(), 4)
    wire.receive(frame_of(heartbeat_api.Response(error_code=0), 4, 0x7FFFFFFF))
    wire.receive(frame_of(heartbeat_api.Response(error_code=0), 4, 0))
    assert len(answers) == 1
