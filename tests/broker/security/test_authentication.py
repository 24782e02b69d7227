"""Connections of a SASL listener, request by request: who gets in, and what others hear."""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import encode_request
from minikafka.protocol.messages import (
    api_versions,
    metadata,
    produce,
    sasl_authenticate,
    sasl_handshake,
)
from minikafka.testing.wire import WireClosedError
from tests.kit.in_process import BrokerUnderTest, running_broker
from tests.kit.sasl import LISTENER, choose, log_in, plain_settings, show
from tests.kit.wire import WireClient, one_batch, produce_request

USERS = {"alice": "alice secret", "bob": "bob secret"}
RIGHT = b"\0alice\0alice secret"
WRONG = b"\0alice\0wrong secret"


@asynccontextmanager
async def secured(tmp_path: Path, *assignments: str) -> AsyncGenerator[BrokerUnderTest]:
    async with running_broker(tmp_path, *plain_settings(**USERS), *assignments) as under_test:
        yield under_test


async def is_closed(client: WireClient) -> bool:
    return await client.receive_frame() is None


async def ask_versions(client: WireClient, version: int = 3) -> api_versions.Response:
    request = api_versions.Request(client_software_name="test", client_software_version="1")
    return await client.ask(request, version, api_versions.Response)


async def ask_metadata(client: WireClient) -> metadata.Response:
    return await client.ask(metadata.Request(topics=[]), 9, metadata.Response)


class LaterClock:
    """The broker's clock, moved by hand."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return trio.current_time() + self.ahead_s

    def wall_ms(self) -> int:
        return 0


# --- getting in ----------------------------------------------------------------------------------


async def test_a_client_with_the_right_password_is_served(tmp_path: Path) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        assert (await ask_versions(client)).error_code == ErrorCode.NONE
        chosen = await choose(client)
        assert (chosen.error_code, chosen.mechanisms) == (ErrorCode.NONE, ["PLAIN"])
        answer = await show(client, RIGHT)
        assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 0)
        await client.create_topic("t")
        assert (await client.produce("t", b"x")).error_code == ErrorCode.NONE


async def test_versions_need_not_be_asked_and_may_be_asked_in_vain(tmp_path: Path) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        await log_in(client, "bob", "bob secret")
        client = under_test.connect(LISTENER)
        await client.send(api_versions.Request(), 5)
        frame = struct.pack(">ihhih", 10, 18, 99, 7, -1)
        client = under_test.connect(LISTENER)
        await client.send_bytes(frame)
        _, answer = await client.receive(api_versions.Response, 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await ask_versions(client)).error_code == ErrorCode.NONE
        await log_in(client, "alice", "alice secret")


async def test_what_is_sent_behind_the_password_is_served_in_order(tmp_path: Path) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        await client.send(sasl_handshake.Request(mechanism="PLAIN"), 1)
        await client.send(sasl_authenticate.Request(auth_bytes=RIGHT), 2)
        await client.send(metadata.Request(topics=[]), 9)
        await client.send(api_versions.Request(), 0)
        assert (await client.receive(sasl_handshake.Response, 1))[1].error_code == 0
        assert (await client.receive(sasl_authenticate.Response, 2))[1].error_code == 0
        assert (await client.receive(metadata.Response, 9))[1].cluster_id
        assert (await client.receive(api_versions.Response, 0))[1].error_code == 0


async def test_every_byte_may_come_alone(tmp_path: Path) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        requests = [sasl_handshake.Request(mechanism="PLAIN"), metadata.Request(topics=[])]
        login = sasl_authenticate.Request(auth_bytes=RIGHT)
        frames = b"".join(
            b"".join(encode_request(request, version, number, None))
            for number, (request, version) in enumerate(
                [(requests[0], 1), (login, 2), (requests[1], 9)]
            )
        )
        for byte in frames:
            await client.send_bytes(bytes([byte]))
        await client.receive(sasl_handshake.Response, 1)
        await client.receive(sasl_authenticate.Response, 2)
        assert (await client.receive(metadata.Response, 9))[1].cluster_id


async def test_old_clients_send_bare_tokens(tmp_path: Path) -> None:
    """SaslHandshake 0 (KIP-43): what follows has a size and nothing else."""
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        handshake = sasl_handshake.Request(mechanism="PLAIN")
        assert (await client.ask(handshake, 0, sasl_handshake.Response)).error_code == 0
        await client.send_bytes(struct.pack(">i", len(RIGHT)) + RIGHT)
        answer = await client.receive_frame()
        assert answer is not None
        assert not answer, "bare, and empty"
        assert (await ask_metadata(client)).cluster_id
        client = under_test.connect(LISTENER)
        await client.ask(handshake, 0, sasl_handshake.Response)
        await client.send_bytes(struct.pack(">i", len(WRONG)) + WRONG)
        assert await is_closed(client)


async def test_a_listener_without_sasl_says_that_there_is_nothing_to_prove(tmp_path: Path) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect()
        assert (await choose(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await show(client, RIGHT)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await ask_metadata(client)).cluster_id


# --- staying out ---------------------------------------------------------------------------------


async def test_a_wrong_password_is_refused_in_kafkas_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        await choose(client)
        answer = await show(client, WRONG)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert await is_closed(client)
    assert "authentication of /test failed" in caplog.text
    assert "secret" not in caplog.text


async def test_an_unknown_mechanism_is_refused_with_those_there_are(tmp_path: Path) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        answer = await choose(client, "GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN"]
        assert await is_closed(client)


async def test_no_other_request_is_answered_before_the_client_has_logged_in(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as under_test:
        for before in range(3):
            client = under_test.connect(LISTENER)
            if before >= 1:
                await ask_versions(client)
            if before >= 2:
                await choose(client)
            await client.send(metadata.Request(topics=[]), 9)
            await client.send(sasl_authenticate.Request(auth_bytes=RIGHT), 2)
            assert await is_closed(client)


async def test_requests_out_of_order_end_the_connection(tmp_path: Path) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        answer = await show(client, RIGHT)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_closed(client)
        client = under_test.connect(LISTENER)
        await choose(client)
        assert (await choose(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_closed(client)
        client = under_test.connect(LISTENER)
        await ask_versions(client)
        with pytest.raises(WireClosedError):
            await ask_versions(client)


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00\x01\x00\x01" + bytes(100),
        b"\xff\xff\xff\xff",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 8, 17, 9, 1),
        struct.pack(">ihhi", 8, 17, 1, 1),
        struct.pack(">ihhi", 8, 18, 3, 1),
        struct.pack(">ihhi", 8, 9999, 3, 1),
        struct.pack(">i", 0),
    ],
)
async def test_junk_ends_the_connection(
    tmp_path: Path, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        await client.send_bytes(junk)
        assert await is_closed(client)
    assert "after a bug" not in caplog.text


async def test_a_client_that_does_not_log_in_is_closed(tmp_path: Path) -> None:
    async with secured(tmp_path, "minikafka.login.timeout.ms=1") as under_test:
        client = under_test.connect(LISTENER)
        assert await is_closed(client)


async def test_a_client_that_leaves_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path) as under_test:
        client = under_test.connect(LISTENER)
        await choose(client)
        await client.stream.send_eof()
        assert await is_closed(client)
    assert "after a bug" not in caplog.text


# --- sessions that end (KIP-368) -----------------------------------------------------------------


@asynccontextmanager
async def with_sessions(tmp_path: Path) -> AsyncGenerator[tuple[BrokerUnderTest, LaterClock]]:
    async with secured(tmp_path, "connections.max.reauth.ms=60000") as under_test:
        clock = LaterClock()
        under_test.broker.clock = clock
        yield under_test, clock


async def test_a_session_that_is_over_is_closed_with_the_next_request(tmp_path: Path) -> None:
    async with with_sessions(tmp_path) as (under_test, clock):
        client = under_test.connect(LISTENER)
        assert (await log_in(client, "alice", "alice secret")).session_lifetime_ms == 60_000
        clock.ahead_s = 59.0
        assert (await ask_metadata(client)).cluster_id
        clock.ahead_s = 61.0
        with pytest.raises(WireClosedError):
            await ask_metadata(client)


async def test_a_producer_that_repeats_itself_is_closed_when_its_session_is_over(
    tmp_path: Path,
) -> None:
    async with with_sessions(tmp_path) as (under_test, clock):
        client = under_test.connect(LISTENER)
        await log_in(client, "alice", "alice secret")
        await client.create_topic("t")
        for number in range(4):
            assert (await client.produce("t", b"in time")).base_offset == number
        clock.ahead_s = 61.0
        with pytest.raises(WireClosedError):
            await client.produce("t", b"too late")
        assert under_test.broker.partitions["t", 0].log.log_end_offset == 4


async def test_a_session_is_renewed_in_time_or_late(tmp_path: Path) -> None:
    async with with_sessions(tmp_path) as (under_test, clock):
        client = under_test.connect(LISTENER)
        await log_in(client, "alice", "alice secret")
        for clock.ahead_s in (50.0, 100.0, 300.0):
            await log_in(client, "alice", "alice secret")
            assert (await ask_metadata(client)).cluster_id


async def test_answers_keep_their_order_while_a_session_is_renewed(tmp_path: Path) -> None:
    async with with_sessions(tmp_path) as (under_test, _):
        client = under_test.connect(LISTENER)
        await log_in(client, "alice", "alice secret")
        await client.create_topic("t")
        await client.send(produce_request("t", one_batch(b"a"), acks=-1), 9)
        await client.send(sasl_handshake.Request(mechanism="PLAIN"), 1)
        await client.send(sasl_authenticate.Request(auth_bytes=RIGHT), 2)
        await client.send(produce_request("t", one_batch(b"b"), acks=-1), 9)
        first = (await client.receive(produce.Response, 9))[1]
        assert first.responses[0].partition_responses[0].base_offset == 0
        await client.receive(sasl_handshake.Response, 1)
        renewed = (await client.receive(sasl_authenticate.Response, 2))[1]
        assert renewed.session_lifetime_ms == 60_000
        second = (await client.receive(produce.Response, 9))[1]
        assert second.responses[0].partition_responses[0].base_offset == 1


async def test_a_session_that_is_being_renewed_serves_nothing_else(tmp_path: Path) -> None:
    async with with_sessions(tmp_path) as (under_test, _):
        client = under_test.connect(LISTENER)
        await log_in(client, "alice", "alice secret")
        await choose(client)
        with pytest.raises(WireClosedError):
            await ask_metadata(client)


async def test_another_user_cannot_renew_a_session(tmp_path: Path) -> None:
    async with with_sessions(tmp_path) as (under_test, _):
        client = under_test.connect(LISTENER)
        await log_in(client, "alice", "alice secret")
        await choose(client)
        answer = await show(client, b"\0bob\0bob secret")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Cannot change principals" in (answer.error_message or "")
        assert await is_closed(client)
