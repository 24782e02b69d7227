"""One connection to one broker, on a blocking socket: no thread, no event loop."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any

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
)
from minikafka_client.options import ConnectionConfig
from minikafka_client.plans import handshake
from minikafka_client.sockets import SOCKETS_ARE_FILES, unwritten


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
        self._greet(address, deadline)

    def _greet(self, address: Address, deadline: float) -> None:
        plan = handshake.shake_hands(address, self._config.sasl)
        try:
            request, version = next(plan)
            while True:
                remaining_ms = max(0.0, deadline - time.monotonic()) * 1000
                request, version = plan.send(self.call(request, version, timeout_ms=remaining_ms))
        except StopIteration as end:
            self.versions = SpokenVersions(end.value)
        except KafkaError:
            self.close()
            raise

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
        deadline = time.monotonic() + timeout_ms / 1000
        buffers = self._wire.submit(request, version, deadline=deadline, on_answer=on_answer)
        self._send(buffers, timeout_ms)

    def send_only(self, request: Request, version: int) -> None:
        """Send a request that is never answered (Produce with acks=0); raises as `submit`."""
        if self.is_closed:
            raise NotConnectedError(f"the connection to {self.address} is closed")
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

    def call(self, request: Request, version: int, *, timeout_ms: float | None = None) -> Response:
        """Send a request and wait for its response; raises if it is lost or overdue."""
        answers: list[Answer] = []
        self.submit(request, version, answers.append, timeout_ms=timeout_ms)
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
