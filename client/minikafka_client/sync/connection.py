"""One connection to one broker, on a blocking socket: no thread, no event loop."""

from __future__ import annotations

import math
import random
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from minikafka.protocol.schema import Request, Response
from minikafka_client.core.cluster import Address
from minikafka_client.core.framing import FrameBuffer
from minikafka_client.core.versions import SpokenVersions
from minikafka_client.core.wire import Answer, OnAnswer, Wire
from minikafka_client.errors import (
    AuthenticationError,
    ConnectionLostError,
    KafkaError,
    NotConnectedError,
    RequestTimeoutError,
    UnreadableResponseError,
    UnsendableRequestError,
)
from minikafka_client.options import ConnectionConfig, PreparedMechanism
from minikafka_client.plans import handshake
from minikafka_client.sockets import SOCKETS_ARE_FILES, unwritten

_Result = TypeVar("_Result")


class BlockingConnection:
    """An open connection; several requests may be submitted before answers are received.

    Raises:
        ConnectionLostError: the connection was refused, or TLS failed.
        AuthenticationError: one side does not trust the other.
        KafkaError: the peer does not speak the Kafka protocol.
    """

    def __init__(self, address: Address, config: ConnectionConfig) -> None:
        self.address = f"{address[0]}:{address[1]}"
        self.versions = SpokenVersions({})
        self.is_closed = False
        self._config = config
        self._wire = Wire(config.client_id)
        self._frames = FrameBuffer(config.response_size_bytes_max)
        timeout_s = config.socket_connection_setup_timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        try:
            plain = socket.create_connection(address, timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = config.ssl_context
            self._socket = (
                plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
            )
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationError(
                f"{self.address} has no certificate that is trusted: {error}"
            ) from error
        except OSError as error:
            raise ConnectionLostError(f"cannot connect to {self.address}: {error}") from error
        # A socket with a timeout is non-blocking underneath, so a write returns at once.
        self._descriptor = plain.fileno() if context is None and SOCKETS_ARE_FILES else None
        self._address = address
        self._renews_at = math.inf
        self._is_delivering = False
        self._held: list[Callable[[KafkaError | None], None]] | None = None
        self._prepare()
        greeting = self._drive(handshake.shake_hands(address, config.sasl), deadline)
        self.versions = SpokenVersions(greeting.versions)
        self._begin_session(greeting.session_lifetime_ms)

    def _drive(self, plan: handshake.Requests[_Result], deadline: float) -> _Result:
        try:
            request, version = next(plan)
            while True:
                remaining_ms = max(0.0, deadline - time.monotonic()) * 1000
                request, version = plan.send(self._call_now(request, version, remaining_ms))
        except StopIteration as end:
            result: _Result = end.value
            return result
        except KafkaError:
            self.close()
            raise

    # --- sessions that end (KIP-368) -----------------------------------------------------------

    def _prepare(self) -> None:
        if isinstance(self._config.sasl, PreparedMechanism):
            try:
                self._config.sasl.prepare()
            except KafkaError:
                self.close()
                raise

    def _begin_session(self, lifetime_ms: int) -> None:
        self._renews_at = math.inf
        if lifetime_ms:
            share = random.uniform(handshake.RENEWAL_SHARE_MIN, handshake.RENEWAL_SHARE_MAX)
            self._renews_at = time.monotonic() + share * lifetime_ms / 1000

    def _log_in_again(self) -> None:
        """Renew the session; the answers to requests in flight arrive before it is done.

        What is submitted when they do is sent afterwards, because the broker takes no other request
        between those that log in.
        """
        sasl = self._config.sasl
        assert sasl is not None, "only authenticated sessions end"
        self._renews_at = math.inf
        self._prepare()
        plan = handshake.authenticate(self._address, sasl, self.versions.of_broker)
        deadline = time.monotonic() + self._config.request_timeout_ms / 1000
        self._held = []
        try:
            lifetime_ms = self._drive(plan, deadline)
        except KafkaError as error:
            self._release(error)
            raise
        self._release(None)
        self._begin_session(lifetime_ms)

    def _is_due(self) -> bool:
        """Whether to log in now: not while answers are delivered, but as soon as they are."""
        return (
            time.monotonic() >= self._renews_at
            and not self._is_delivering
            and self._held is None
            and not self.is_closed
        )

    def _hold(self, send: Callable[[], None], on_answer: OnAnswer | None) -> None:
        def go_on(error: KafkaError | None) -> None:
            if self.is_closed and error is None:
                error = NotConnectedError(f"the connection to {self.address} is closed")
            if error is None:
                try:
                    send()
                except KafkaError as failure:
                    # Losing the connection has answered what was sent.
                    error = failure if isinstance(failure, UnsendableRequestError) else None
            if error is not None and on_answer is not None:
                on_answer(error)

        assert self._held is not None, "nothing has to wait"
        self._held.append(go_on)

    def _release(self, error: KafkaError | None) -> None:
        held, self._held = self._held or [], None
        for go_on in held:
            go_on(error)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_received(self) -> bool:
        """Whether TLS has decrypted bytes, although the socket looks idle."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def deadline(self) -> float | None:
        return self._wire.deadline()

    def __len__(self) -> int:
        return len(self._wire)

    def version_for(self, request: Request, version_min: int = 0, version_max: int = 32767) -> int:
        return self.versions.version_for(type(request), version_min, version_max)

    def submit(
        self,
        request: Request,
        version: int,
        on_answer: OnAnswer,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Send a request; a later `receive` passes its answer to ``on_answer``.

        Raises:
            ConnectionLostError: the connection is closed, or was lost.
            UnsendableRequestError: a value in the request cannot be encoded.
        """
        if self.is_closed:
            raise NotConnectedError(f"the connection to {self.address} is closed")
        if timeout_ms is None:
            timeout_ms = self._config.request_timeout_ms
        if self._held is not None:
            self._hold(lambda: self._submit_now(request, version, on_answer, timeout_ms), on_answer)
            return
        if self._is_due():
            self._log_in_again()
        self._submit_now(request, version, on_answer, timeout_ms)

    def _submit_now(
        self, request: Request, version: int, on_answer: OnAnswer, timeout_ms: float
    ) -> None:
        deadline = time.monotonic() + timeout_ms / 1000
        buffers = self._wire.submit(request, version, deadline=deadline, on_answer=on_answer)
        self._send(buffers, timeout_ms)

    def send_only(self, request: Request, version: int) -> None:
        """Send a request that is never answered (Produce with acks=0); raises as `submit`."""
        if self.is_closed:
            raise NotConnectedError(f"the connection to {self.address} is closed")
        if self._held is not None:
            self._hold(lambda: self._send_only_now(request, version), None)
            return
        if self._is_due():
            self._log_in_again()
        self._send_only_now(request, version)

    def _send_only_now(self, request: Request, version: int) -> None:
        self._send(self._wire.encode(request, version), self._config.request_timeout_ms)

    def _send(self, buffers: list[Any], timeout_ms: float) -> None:
        try:
            if self._descriptor is not None:
                buffers = unwritten(self._descriptor, buffers)
            if buffers:
                self._socket.settimeout(timeout_ms / 1000)
                for buffer in _joined(buffers):
                    self._socket.sendall(buffer)
        except OSError as error:
            lost = ConnectionLostError(f"the connection to {self.address} broke: {error!r}")
            self.close(lost)
            raise lost from error

    def receive(self) -> None:
        """Wait for bytes, and deliver the answers that they complete.

        If the connection is lost, all requests in flight are answered with the error.
        """
        deadline = self._wire.deadline()
        if self.is_closed or deadline is None:
            return
        try:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining_s)
            size_bytes = self._socket.recv_into(self._frames.space())
            if not size_bytes:
                raise ConnectionResetError("the broker closed it")
            self._is_delivering = True
            for frame in self._frames.received(size_bytes):
                self._wire.receive(frame)
        except TimeoutError:
            self.close(
                self._wire.overdue(time.monotonic())
                or RequestTimeoutError(f"{self.address} did not answer in time")
            )
        except OSError as error:
            self.close(ConnectionLostError(f"the connection to {self.address} broke: {error!r}"))
        except UnreadableResponseError as error:
            self.close(UnreadableResponseError(f"{self.address}: {error}"))
        finally:
            self._is_delivering = False
        if self._is_due():
            with suppress(KafkaError):  # the requests in flight have been answered with it
                self._log_in_again()

    def call(self, request: Request, version: int, *, timeout_ms: float | None = None) -> Response:
        """Send a request and wait for its response; raises if it is lost or overdue."""
        answers: list[Answer] = []
        self.submit(request, version, answers.append, timeout_ms=timeout_ms)
        return self._wait_for(answers)

    def _call_now(self, request: Request, version: int, timeout_ms: float) -> Response:
        """`call`, also while other requests have to wait for the login."""
        answers: list[Answer] = []
        if self.is_closed:
            raise NotConnectedError(f"the connection to {self.address} is closed")
        self._submit_now(request, version, answers.append, timeout_ms)
        return self._wait_for(answers)

    def _wait_for(self, answers: list[Answer]) -> Response:
        while not answers:
            self.receive()
        answer = answers[0]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def close(self, reason: KafkaError | None = None) -> None:
        """Close the socket; requests in flight fail with ``reason``. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        self._socket.close()
        self._wire.fail(reason or ConnectionLostError(f"the connection to {self.address} closed"))


def _joined(buffers: list[Any]) -> list[Any]:
    if sum(map(len, buffers)) <= 65_536:
        return [b"".join(buffers)]
    return buffers
