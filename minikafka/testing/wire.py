"""Kafka's protocol message by message, for tests of a broker rather than of an application.

    with Wire(kafka.bootstrap) as wire:
        answer = wire.ask(metadata.MetadataRequest(topics=[]), 12, metadata.MetadataResponse)

`Wire` blocks; `TrioWire` is for trio, over any stream. Requests can be pipelined (`send` several
times, then `receive` in the same order), and `send_bytes` sends anything. Nothing is retried.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from ..protocol.api import ApiKey
from ..protocol.frames import decode_response_header, encode_request
from ..protocol.schema import Request, Response

if TYPE_CHECKING:
    import trio

TIMEOUT_S: Final = 120.0
_SIZE_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16

_R = TypeVar("_R", bound=Response)


class WireClosedError(ConnectionError):
    """The broker closed the connection instead of answering."""


def decode_response(
    kind: type[_R], version: int, frame: memoryview | bytes | bytearray
) -> tuple[int, _R]:
    """A frame without its size, as a response of a known kind: (correlation id, response)."""
    # ApiVersions is answered before the client knows which versions there are (KIP-511).
    flexible = version in kind.FLEXIBLE and kind.API_KEY != ApiKey.API_VERSIONS
    correlation_id, position = decode_response_header(memoryview(frame), flexible=flexible)
    return correlation_id, kind.decode(version, memoryview(frame), position)


class Frames:
    """Requests to bytes, and bytes to frames."""

    def __init__(self) -> None:
        self._correlation_id = 0
        self._received = bytearray()

    def request(self, request: Request, version: int, client_id: str | None) -> tuple[int, bytes]:
        """A framed request under a correlation id of its own: (correlation id, bytes)."""
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, client_id)
        return self._correlation_id, b"".join(frame)

    def feed(self, content: bytes) -> None:
        """Add received bytes."""
        self._received += content

    def next_frame(self) -> memoryview | None:
        """The next frame without its size, if the whole of it has come."""
        end = _SIZE_BYTES + int.from_bytes(self._received[:_SIZE_BYTES], "big")
        if len(self._received) < end:
            return None
        frame = bytes(memoryview(self._received)[_SIZE_BYTES:end])
        del self._received[:end]
        return memoryview(frame)


class Wire:
    """A blocking connection.

    Args:
        address: ``HOST:PORT``.
        timeout_s: how long each send and receive may wait.

    Attributes:
        socket: for what this class does not offer.

    Raises:
        OSError: (constructor and methods) the connection broke.
        TimeoutError: (constructor and methods) nothing came for ``timeout_s``.
    """

    def __init__(self, address: str, *, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = Frames()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send(self, request: Request, version: int, client_id: str | None = "test") -> int:
        """Send a request; returns its correlation id."""
        correlation_id, content = self._frames.request(request, version, client_id)
        self.socket.sendall(content)
        return correlation_id

    def send_bytes(self, content: bytes) -> None:
        """Send bytes, well-formed or not."""
        self.socket.sendall(content)

    def receive_frame(self) -> memoryview | None:
        """The next frame without its size; None when the broker has closed the connection."""
        while (frame := self._frames.next_frame()) is None:
            try:
                content = self.socket.recv(_READ_BYTES)
            except ConnectionError:
                return None
            if not content:
                return None
            self._frames.feed(content)
        return frame

    def receive(self, kind: type[_R], version: int) -> tuple[int, _R]:
        """The next response: (correlation id, response).

        Raises:
            WireClosedError: the broker closed the connection.
        """
        frame = self.receive_frame()
        if frame is None:
            raise WireClosedError("the broker closed the connection")
        return decode_response(kind, version, frame)

    def ask(self, request: Request, version: int, kind: type[_R]) -> _R:
        """Send a request and return its response, whose class is ``kind``.

        Raises:
            WireClosedError: the broker closed the connection.
            RuntimeError: the response belongs to another request.
        """
        asked = self.send(request, version)
        answered, response = self.receive(kind, version)
        _check_order(asked, answered)
        return response


class TrioWire:
    """A connection over a stream, for trio.

    Args:
        stream: is closed by the caller.

    Raises:
        trio.BrokenResourceError: (methods that send) the connection broke.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.frames = Frames()

    async def send(self, request: Request, version: int, client_id: str | None = "test") -> int:
        """Send a request; returns its correlation id."""
        correlation_id, content = self.frames.request(request, version, client_id)
        await self.stream.send_all(content)
        return correlation_id

    async def send_bytes(self, content: bytes) -> None:
        """Send bytes, well-formed or not."""
        await self.stream.send_all(content)

    async def receive_frame(self) -> memoryview | None:
        """The next frame without its size; None when the broker has closed the connection."""
        import trio  # tests that use `Wire` start faster without it

        while (frame := self.frames.next_frame()) is None:
            try:
                content = await self.stream.receive_some(_READ_BYTES)
            except trio.BrokenResourceError:
                return None
            if not content:
                return None
            self.frames.feed(content)
        return frame

    async def receive(self, kind: type[_R], version: int) -> tuple[int, _R]:
        """The next response: (correlation id, response).

        Raises:
            WireClosedError: the broker closed the connection.
        """
        frame = await self.receive_frame()
        if frame is None:
            raise WireClosedError("the broker closed the connection")
        return decode_response(kind, version, frame)

    async def ask(self, request: Request, version: int, kind: type[_R]) -> _R:
        """Send a request and return its response, whose class is ``kind``.

        Raises:
            WireClosedError: the broker closed the connection.
            RuntimeError: the response belongs to another request.
        """
        asked = await self.send(request, version)
        answered, response = await self.receive(kind, version)
        _check_order(asked, answered)
        return response


def _check_order(asked: int, answered: int) -> None:
    if asked != answered:
        raise RuntimeError(f"a response to request {answered}, not to request {asked}")
