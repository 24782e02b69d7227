"""One connection to one broker, on trio.

A request is written when it is submitted, as far as the kernel accepts it; a writer task sends the
rest. A reader task delivers the responses; `core.wire` matches them to their requests. Submitting
never waits: what may be in flight is limited by the submitter (the sender by
``max_in_flight``, the fetcher by one request per broker, a call by its caller).
"""

from __future__ import annotations

import math
import os
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeGuard, TypeVar, cast

import trio

from minikafka.protocol.schema import Request, Response
from minikafka_client import errors
from minikafka_client.core.cluster import Address
from minikafka_client.core.framing import FrameBuffer
from minikafka_client.core.versions import SpokenVersions
from minikafka_client.core.wire import Answer, OnAnswer, Wire
from minikafka_client.options import ConnectionConfig, Mechanism, PreparedMechanism
from minikafka_client.plans import handshake
from minikafka_client.sockets import SOCKETS_ARE_FILES, unwritten

OnSent = Callable[[errors.KafkaError | None], None]

_Result = TypeVar("_Result")

_JOIN_SIZE_BYTES = 64 * 1024
"""Buffers up to this much are joined to one system call; larger ones are sent as they are."""


class _Session(NamedTuple):
    """Who logged in, how, and when to do it again."""

    address: Address
    sasl: Mechanism
    renews_at: float


class Connection:
    """An open connection; made by `open_connection`, which also runs its tasks."""

    def __init__(self, stream: trio.abc.Stream, address: str, config: ConnectionConfig) -> None:
        self.address = address
        self.versions = SpokenVersions({})
        self.is_closed = False
        self.closed_because: errors.KafkaError | None = None
        self._config = config
        self._stream = stream
        self._wire = Wire(config.client_id)
        self._frames = FrameBuffer(config.response_size_bytes_max)
        self._unsent: list[Any] = []
        self._unsent_without_response: list[OnSent] = []
        self._has_unsent = trio.Event()
        self._is_writing = False
        self._socket = stream.socket if _is_a_file(stream) else None
        self._now = trio.lowlevel.current_clock().current_time
        self._tasks = trio.CancelScope()
        self._timer = trio.CancelScope()
        self._settled = trio.Event()
        self._session: _Session | None = None
        self._has_session = trio.Event()
        self._held: list[Callable[[errors.KafkaError | None], None]] | None = None

    def __len__(self) -> int:
        return len(self._wire) + len(self._held or ())

    def version_for(self, request: Request, version_min: int = 0, version_max: int = 32767) -> int:
        return self.versions.version_for(type(request), version_min, version_max)

    def submit(
        self, request: Request, version: int, on_answer: OnAnswer, *, timeout_ms: int | None = None
    ) -> None:
        """Send a request; ``on_answer`` is called once, with the response or the error.

        Raises:
            ConnectionLostError: the connection is closed.
            UnsendableRequestError: a value in the request cannot travel.
        """
        self._check_open()
        if timeout_ms is None:
            timeout_ms = self._config.request_timeout_ms
        deadline = self._now() + timeout_ms / 1000
        if self._held is not None:
            self._held.append(partial(self._submit_held, request, version, deadline, on_answer))
            return
        self._submit_now(request, version, deadline, on_answer)

    def _submit_now(
        self, request: Request, version: int, deadline: float, on_answer: OnAnswer
    ) -> None:
        buffers = self._wire.submit(request, version, deadline=deadline, on_answer=on_answer)
        if self._socket is not None and not self._unsent and not self._is_writing:
            # It spares a turn of the writer, which for a small request is as long as the rest.
            buffers = unwritten(self._socket.fileno(), buffers)
        if buffers:
            self._unsent += buffers
            self._has_unsent.set()
        if deadline < self._timer.deadline:
            self._timer.deadline = deadline

    def send_only(self, request: Request, version: int, on_sent: OnSent) -> None:
        """Send a request that is never answered (Produce with acks=0); raises as `submit`.

        ``on_sent`` is called once: with None when the kernel has taken it all, else with the error.
        """
        self._check_open()
        if self._held is not None:
            self._held.append(partial(self._send_held, request, version, on_sent))
            return
        self._send_only_now(request, version, on_sent)

    def _send_only_now(self, request: Request, version: int, on_sent: OnSent) -> None:
        self._unsent += self._wire.encode(request, version)
        self._unsent_without_response.append(on_sent)
        self._has_unsent.set()

    def _check_open(self) -> None:
        if self.is_closed:
            raise errors.NotConnectedError(f"the connection to {self.address} is closed")

    async def call(
        self, request: Request, version: int, *, timeout_ms: int | None = None
    ) -> Response:
        """Send a request and wait for its response; if cancelled, the response is dropped."""
        answered = trio.Event()
        answers: list[Answer] = []

        def on_answer(answer: Answer) -> None:
            answers.append(answer)
            answered.set()

        self.submit(request, version, on_answer, timeout_ms=timeout_ms)
        await answered.wait()
        answer = answers[0]
        if isinstance(answer, errors.KafkaError):
            raise answer
        return answer

    # --- sessions that end (KIP-368) -----------------------------------------------------------

    def begin_session(self, address: Address, sasl: Mechanism, lifetime_ms: int) -> None:
        """Log in again, by the same mechanism, before the session's lifetime is over."""
        share = random.uniform(handshake.RENEWAL_SHARE_MIN, handshake.RENEWAL_SHARE_MAX)
        self._session = _Session(address, sasl, self._now() + share * lifetime_ms / 1000)
        self._has_session.set()

    async def _keep_session(self) -> None:
        """Renew the session in time; what is submitted meanwhile is sent afterwards.

        The broker takes no other request between those that log in.
        """
        await self._has_session.wait()
        while self._session is not None:
            address, sasl, renews_at = self._session
            await trio.sleep_until(renews_at)
            try:
                await prepare(sasl)
                self._held = []
                plan = handshake.authenticate(address, sasl, self.versions.of_broker)
                lifetime_ms = await _drive(plan, self._call_now)
            except errors.KafkaError as error:
                self.close(error)
                return
            self._release(None)
            self._session = None
            if lifetime_ms:
                self.begin_session(address, sasl, lifetime_ms)

    async def _call_now(self, request: Request, version: int) -> Response:
        answered = trio.Event()
        answers: list[Answer] = []

        def on_answer(answer: Answer) -> None:
            answers.append(answer)
            answered.set()

        deadline = self._now() + self._config.request_timeout_ms / 1000
        self._submit_now(request, version, deadline, on_answer)
        await answered.wait()
        if isinstance(answers[0], errors.KafkaError):
            raise answers[0]
        return answers[0]

    def _submit_held(
        self,
        request: Request,
        version: int,
        deadline: float,
        on_answer: OnAnswer,
        error: errors.KafkaError | None,
    ) -> None:
        if error is None:
            try:
                self._submit_now(request, version, deadline, on_answer)
            except errors.UnsendableRequestError as unsendable:
                error = unsendable
        if error is not None:
            on_answer(error)

    def _send_held(
        self, request: Request, version: int, on_sent: OnSent, error: errors.KafkaError | None
    ) -> None:
        if error is None:
            try:
                self._send_only_now(request, version, on_sent)
            except errors.UnsendableRequestError as unsendable:
                error = unsendable
        if error is not None:
            on_sent(error)

    def _release(self, error: errors.KafkaError | None) -> None:
        """Send what was held back, or give it up with an error."""
        held, self._held = self._held or [], None
        for go_on in held:
            go_on(error)

    # --- the end -------------------------------------------------------------------------------

    async def settled(self) -> None:
        while len(self) and not self.is_closed:
            self._settled = trio.Event()
            await self._settled.wait()

    def close(self, reason: errors.KafkaError | None = None) -> None:
        """Stop both tasks; unanswered requests fail with ``reason``. May be called repeatedly."""
        if self.is_closed:
            return
        self.is_closed = True
        self.closed_because = reason
        self._tasks.cancel()
        error = reason or errors.ConnectionLostError(f"the connection to {self.address} closed")
        self._wire.fail(error)
        self._release(error)
        self._settled.set()
        for on_sent in self._unsent_without_response:
            on_sent(error)

    async def run(self) -> None:
        reason: errors.KafkaError | None = None
        try:
            with self._tasks:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._watch)
                    nursery.start_soon(self._keep_session)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as group:
            reason = errors.ConnectionLostError(
                f"the connection to {self.address} broke: {_first(group)!r}"
            )
            reason.__cause__ = group
        except* errors.UnreadableResponseError as group:
            reason = errors.UnreadableResponseError(f"{self.address}: {_first(group)}")
            reason.__cause__ = group
        finally:
            self.close(reason)
            await trio.aclose_forcefully(self._stream)

    async def _write(self) -> None:
        while True:
            await self._has_unsent.wait()
            self._has_unsent = trio.Event()
            buffers, self._unsent = self._unsent, []
            unanswered = len(self._unsent_without_response)
            self._is_writing = True
            await _send(self._stream, buffers)
            self._is_writing = False
            for _ in range(unanswered):
                self._unsent_without_response.pop(0)(None)

    async def _read(self) -> None:
        receive = _receiver(self._stream, self._frames)
        while True:
            size_bytes = await receive()
            if not size_bytes:
                raise trio.BrokenResourceError("the broker closed it")
            for frame in self._frames.received(size_bytes):
                self._wire.receive(frame)
            self._settled.set()

    async def _watch(self) -> None:
        """Close the connection when the oldest request has waited too long.

        The timer is not moved while requests are answered in time: waking up for nothing every few
        seconds costs less than moving it twice for each request.
        """
        while True:
            deadline = self._wire.deadline()
            self._timer = trio.CancelScope(deadline=math.inf if deadline is None else deadline)
            with self._timer:
                await trio.sleep_forever()
            overdue = self._wire.overdue(self._now())
            if overdue is not None:
                self.close(overdue)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


async def _send(stream: trio.abc.Stream, buffers: Sequence[Any]) -> None:
    small: list[Any] = []
    size_bytes = 0
    for buffer in buffers:
        small.append(buffer)
        size_bytes += len(buffer)
        if size_bytes > _JOIN_SIZE_BYTES:
            if len(small) > 1:
                await stream.send_all(b"".join(small[:-1]))
            await stream.send_all(small[-1])
            small.clear()
            size_bytes = 0
    if small:
        await stream.send_all(b"".join(small) if len(small) > 1 else small[0])


def _receiver(stream: trio.abc.Stream, frames: FrameBuffer) -> Callable[[], Awaitable[int]]:
    """``await receive() -> size_bytes``, without a copy where the stream is a plain socket."""
    if not isinstance(stream, trio.SocketStream):
        return partial(_receive_copied, stream, frames)
    if not _is_a_file(stream):
        return lambda: stream.socket.recv_into(frames.space())
    return partial(_receive_when_readable, stream.socket.fileno(), frames)


def _is_a_file(stream: trio.abc.Stream) -> TypeGuard[trio.SocketStream]:
    """Whether it can be read and written by descriptor.

    Not on every system, and not where another socket factory stands in for trio's (a simulation).
    """
    if not isinstance(stream, trio.SocketStream) or not SOCKETS_ARE_FILES:
        return False
    return stream.socket.fileno() >= 0


async def _receive_copied(stream: trio.abc.Stream, frames: FrameBuffer) -> int:
    view = frames.space()
    received = await stream.receive_some(len(view))
    view[: len(received)] = received
    return len(received)


async def _receive_when_readable(descriptor: int, frames: FrameBuffer) -> int:
    """Wait before the first read, unlike trio: one answer seldom follows another immediately."""
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        try:
            return os.readv(descriptor, [frames.space()])
        except BlockingIOError:
            pass  # the error of the first write is the one to report


async def open_stream(host: str, port: int, context: ssl.SSLContext | None) -> trio.abc.Stream:
    """Connect, with TLS if there is a context; `AuthenticationError` or `ConnectionLostError`."""
    try:
        stream: trio.abc.Stream = await trio.open_tcp_stream(host, port)
        if context is not None:
            stream = await _secured(stream, host, context)
    except trio.BrokenResourceError as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            raise errors.AuthenticationError(
                f"{host}:{port} has no certificate that is trusted: {error.__cause__}"
            ) from error
        raise errors.ConnectionLostError(
            f"cannot connect to {host}:{port}: {error.__cause__ or error}"
        ) from error
    except OSError as error:
        raise errors.ConnectionLostError(f"cannot connect to {host}:{port}: {error}") from error
    return stream


async def _secured(stream: trio.abc.Stream, host: str, context: ssl.SSLContext) -> trio.abc.Stream:
    secured = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await secured.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secured


async def greet(connection: Connection, address: Address, sasl: Mechanism | None) -> None:
    """Run the handshake on a new connection."""
    if sasl is not None:
        await prepare(sasl)
    greeting = await _drive(handshake.shake_hands(address, sasl), connection.call)
    connection.versions = SpokenVersions(greeting.versions)
    if sasl is not None and greeting.session_lifetime_ms:
        connection.begin_session(address, sasl, greeting.session_lifetime_ms)


async def prepare(sasl: Mechanism) -> None:
    """Let a mechanism wait for what it needs, in a thread."""
    if isinstance(sasl, PreparedMechanism):
        await trio.to_thread.run_sync(sasl.prepare, abandon_on_cancel=True)


async def _drive(
    plan: handshake.Requests[_Result], call: Callable[[Request, int], Awaitable[Response]]
) -> _Result:
    try:
        request, version = next(plan)
        while True:
            request, version = plan.send(await call(request, version))
    except StopIteration as end:
        result: _Result = end.value
        return result
