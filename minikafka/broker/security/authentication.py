"""How a connection of a SASL listener becomes a user's: requests in, answers out.

`minikafka.security.sasl` decides; this runs it. Until the client has logged in, frames are read by
`Authentication.run`: small ones, for a limited time, and only ApiVersions, SaslHandshake and
SaslAuthenticate are answered. Afterwards the connection reads them and asks `Authentication.admits`
about each.

After SaslHandshake 0, as clients before Kafka 1.0 send it, tokens come and go without a header,
each behind its size.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ...protocol.api import ApiKey, request_class
from ...protocol.errors import ErrorCode
from ...protocol.exceptions import MalformedMessageError
from ...protocol.frames import SIZE, decode_request_header, encode_response, peek_api
from ...protocol.messages import sasl_authenticate, sasl_handshake
from ...security.mechanisms import Check
from ...security.principal import Principal
from ...security.sasl import Now, SaslError, SaslSession, SaslState, TokenAnswer
from ..system.clock import Clock
from ..system.workers import RunInThread
from ..transport.transport import ConnectionLostError, Transport
from .sasl import ListenerSasl

__all__ = ["Authentication", "AuthenticationFailedError"]

logger = logging.getLogger(__name__)

AnswerVersions = Callable[[memoryview], Awaitable[tuple[list[Any], bool]]]
"""Answers a frame of ApiVersions, and says whether the client understands the answer."""


class AuthenticationFailedError(Exception):
    """The connection has to be closed, after a pause.

    Attributes:
        answer: what the client is told first, if there is anything.
    """

    def __init__(self, reason: str, answer: list[Any] | None = None) -> None:
        super().__init__(reason)
        self.answer = answer or []


class Authentication:
    """One connection's.

    Args:
        listener: how clients log in there.
        on_authenticated: is told who the client is.
        clock: times sessions.
        run_in_thread: runs slow checks.
        answer_versions: answers ApiVersions.
    """

    def __init__(
        self,
        listener: ListenerSasl,
        on_authenticated: Callable[[Principal], None],
        clock: Clock,
        run_in_thread: RunInThread,
        answer_versions: AnswerVersions,
    ) -> None:
        self._listener = listener
        self._on_authenticated = on_authenticated
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._answer_versions = answer_versions
        self._session = SaslSession(listener.mechanisms)
        self._takes_bare_tokens = False

    # --- before the client has logged in ---------------------------------------------------------

    async def run(self, transport: Transport) -> bytes:
        """Serve the client until it has logged in; returns what it has sent after that.

        Raises:
            ConnectionLostError: it has left, or did not log in; then it has been told.
        """
        received = bytearray()
        try:
            with trio.fail_after(self._listener.timeout_s):
                while not self._session.is_authenticated:
                    frame = await self._next_frame(transport, received)
                    answer = await self.serve(memoryview(frame))
                    await transport.send(answer)
        except trio.TooSlowError:
            timeout_s = self._listener.timeout_s
            logger.info("%s has not logged in within %g s", transport.peer, timeout_s)
            raise ConnectionLostError("the client has not logged in in time") from None
        except AuthenticationFailedError as failure:
            await self.refuse(transport, failure)
        return bytes(received)

    async def _next_frame(self, transport: Transport, received: bytearray) -> bytes:
        while len(received) < SIZE.size:
            received += await _some(transport)
        (size,) = SIZE.unpack_from(received)
        if not 0 <= size <= self._listener.size_bytes_max:
            self._session.end()
            raise AuthenticationFailedError(
                f"a request has {size} bytes, but until a client has logged in "
                f"{self._listener.size_bytes_max} are allowed (sasl.server.max.receive.size)"
            )
        end = SIZE.size + size
        while len(received) < end:
            received += await _some(transport)
        frame = bytes(received[SIZE.size : end])
        del received[:end]
        return frame

    async def refuse(self, transport: Transport, failure: AuthenticationFailedError) -> None:
        """Tell the client after a pause, which slows down those who try passwords.

        Raises:
            ConnectionLostError: always; the connection ends.
        """
        logger.info("authentication of %s failed: %s", transport.peer, failure)
        await trio.sleep(self._listener.failure_delay_s)
        if failure.answer:
            await transport.send(failure.answer)
        raise ConnectionLostError("the client has not logged in")

    # --- any time --------------------------------------------------------------------------------

    def admits(self, api_key: int) -> bool:
        """Whether a request may be served; otherwise `serve` takes it."""
        session = self._session
        if api_key == ApiKey.SASL_HANDSHAKE and session.may_authenticate_again:
            return False
        return session.is_authenticated and not session.has_ended(self._clock.monotonic())

    async def serve(self, frame: memoryview) -> list[Any]:
        """Answer a frame (without its size) that is about logging in.

        Raises:
            AuthenticationFailedError: the connection has to be closed.
        """
        if self._session.is_authenticated and peek_api(frame)[0] != ApiKey.SASL_HANDSHAKE:
            self._session.end()
            raise AuthenticationFailedError(
                f"the session has ended, and the client goes on with {_title(peek_api(frame)[0])}"
            )
        if self._takes_bare_tokens:
            return await self._bare_token(frame)
        try:
            return await self._request(frame)
        except MalformedMessageError as error:
            self._session.end()
            raise AuthenticationFailedError(f"a malformed request: {error}") from None

    async def _request(self, frame: memoryview) -> list[Any]:
        api_key, version, correlation_id = peek_api(frame)
        if api_key == ApiKey.API_VERSIONS and self._session.state is SaslState.NEW:
            answer, understood = await self._answer_versions(frame)
            self._session.asked_versions(understood=understood)
            return answer
        message = _decoded(api_key, version, frame)
        if isinstance(message, sasl_handshake.Request):
            return self._handshake(message, version, correlation_id)
        if isinstance(message, sasl_authenticate.Request):
            return await self._authenticate(message, version, correlation_id)
        error = self._session.unexpected(_title(api_key))
        raise AuthenticationFailedError(str(error))

    def _handshake(
        self, request: sasl_handshake.Request, version: int, correlation_id: int
    ) -> list[Any]:
        answer = sasl_handshake.Response(
            error_code=ErrorCode.NONE, mechanisms=list(self._listener.mechanisms)
        )
        try:
            self._session.handshake(request.mechanism)
        except SaslError as error:
            answer.error_code = error.error_code
            parts = encode_response(answer, version, correlation_id)
            raise AuthenticationFailedError(str(error), parts) from None
        self._takes_bare_tokens = version == 0
        return encode_response(answer, version, correlation_id)

    async def _authenticate(
        self, request: sasl_authenticate.Request, version: int, correlation_id: int
    ) -> list[Any]:
        try:
            answer = await self._token(bytes(request.auth_bytes))
        except SaslError as error:
            refusal = sasl_authenticate.Response(
                error_code=error.error_code, error_message=error.message, auth_bytes=b""
            )
            parts = encode_response(refusal, version, correlation_id)
            raise AuthenticationFailedError(str(error), parts) from None
        response = sasl_authenticate.Response(
            error_code=ErrorCode.NONE, error_message=None, auth_bytes=answer.token
        )
        if version > 0:
            response.session_lifetime_ms = answer.session_lifetime_ms
        return encode_response(response, version, correlation_id)

    async def _bare_token(self, frame: memoryview) -> list[Any]:
        try:
            token = (await self._token(bytes(frame))).token
        except SaslError as error:
            raise AuthenticationFailedError(str(error)) from None
        self._takes_bare_tokens = not self._session.is_authenticated
        return [SIZE.pack(len(token)) + token]

    async def _token(self, token: bytes) -> TokenAnswer:
        answer = self._session.token(token, self._now())
        if isinstance(answer, Check):
            async with self._listener.checks:
                verdict = await self._run_in_thread(answer.run, abandon_on_cancel=True)
            answer = self._session.checked(verdict, self._now())
        if self._session.is_authenticated and self._session.principal is not None:
            self._on_authenticated(self._session.principal)
        return answer

    def _now(self) -> Now:
        return Now(self._clock.monotonic(), self._clock.wall_ms())


async def _some(transport: Transport) -> bytes:
    chunk = await transport.receive()
    if not chunk:
        raise ConnectionLostError("the client left before it had logged in")
    return chunk


def _decoded(api_key: int, version: int, frame: memoryview) -> object:
    """The message, if it is one of those that log in; nothing else is decoded before that."""
    if api_key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return None
    kind = request_class(ApiKey(api_key))
    if version not in kind.VERSIONS:
        raise MalformedMessageError(f"{_title(api_key)} version {version} is not supported")
    _, position = decode_request_header(frame, flexible=version in kind.FLEXIBLE)
    return kind.decode(version, frame, position)


def _title(api_key: int) -> str:
    try:
        return ApiKey(api_key).name
    except ValueError:
        return str(api_key)
