"""TLS over a client's or another node's socket, with OpenSSL between two buffers in memory.

OpenSSL never touches the socket. So one system call takes or sends many TLS records, writes of any
size are bounded pieces, and it is known at every moment what has been encrypted and not sent. TLS
has no sendfile: slices of files are read in pieces and encrypted.

What has been encrypted must leave in that order. So `send_now` returns one empty buffer if it took
everything but the socket did not: `send` sends what is left of it.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import trio

from ...storage.disk import FileSlice
from .transport import RECEIVE_SIZE_BYTES, ConnectionLostError, FilePayload, rest_of

__all__ = ["NotTlsError", "TlsHandshakeError", "TlsTransport"]

_PIECE_SIZE_BYTES: Final = 128 * 1024
"""Encrypted and sent at once; and with that what a slow reader costs in memory."""
_JOINED_SIZE_BYTES_MAX: Final = 16 * 1024
"""Smaller buffers are joined: every TLS record has a header and a checksum."""
_PIECES_PER_TURN: Final = 16
_LARGE_RECEIVE_SIZE_BYTES: Final = 256 * 1024
_HANDSHAKE_RECEIVE_SIZE_BYTES: Final = 16 * 1024
_HANDSHAKE_RECORD: Final = 0x16
_REFUSED_SECONDS_MAX: Final = 1.0

RunStep = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs one step of a handshake, which computes for milliseconds, elsewhere than here."""


class _Passage(threading.local):
    """Where encrypted bytes of all connections pass through, from a socket to OpenSSL.

    Allocating a large buffer for each call would cost more than the call. Brokers in one process
    may run in several threads.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_LARGE_RECEIVE_SIZE_BYTES))


_PASSAGE: Final = _Passage()


class TlsHandshakeError(Exception):
    """The other side and this one do not agree on a connection."""


class NotTlsError(TlsHandshakeError):
    """What the other side sent is not TLS."""


class TlsTransport:
    """`Transport` and `NodeStream` with TLS; `handshake` comes first."""

    __slots__ = (
        "_context",
        "_incoming",
        "_is_at_end",
        "_is_client",
        "_may_have_more",
        "_outgoing",
        "_socket",
        "_tls",
        "_unsent",
        "moves",
        "peer",
    )

    def __init__(
        self,
        plain: socket.socket,
        context: ssl.SSLContext,
        peer: str = "",
        *,
        is_client: bool = False,
    ) -> None:
        self._socket = plain
        self._context = context
        self._is_client = is_client
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._unsent: list[Any] = []
        self._may_have_more = False
        self._is_at_end = False
        self.peer = peer
        self.moves = 0

    # --- the handshake -------------------------------------------------------------------------

    async def handshake(self, run_step: RunStep) -> None:
        """Agree on keys, and check certificates.

        A side that says nothing costs no more than a plain connection: OpenSSL's part is made when
        the first bytes are there.

        Raises:
            NotTlsError: the first byte is not TLS.
            TlsHandshakeError: the two do not agree, or one does not trust the other.
            ConnectionLostError: the other side is gone.
        """
        first = b""
        if not self._is_client:
            first = bytes(await self._receive_some(_HANDSHAKE_RECEIVE_SIZE_BYTES))
        if first and first[0] != _HANDSHAKE_RECORD:
            raise NotTlsError(f"it does not speak TLS; its first bytes are {first[:8].hex(' ')}")
        if not (first or self._is_client):
            raise ConnectionLostError("it left before the TLS handshake")
        tls = self._context.wrap_bio(
            self._incoming, self._outgoing, server_side=not self._is_client
        )
        self._incoming.write(first)
        while True:
            is_done = await self._step(tls, run_step)
            await self._flush()
            if is_done:
                break
            more = await self._receive_some(_HANDSHAKE_RECEIVE_SIZE_BYTES)
            if not len(more):
                raise ConnectionLostError("it left during the TLS handshake")
            self._incoming.write(more)
        self._tls = tls
        self._may_have_more = True

    async def _step(self, tls: ssl.SSLObject, run_step: RunStep) -> bool:
        try:
            await run_step(tls.do_handshake)
        except ssl.SSLWantReadError:
            self._collect()
            return False
        except ssl.SSLError as error:
            self._collect()
            await self._say_goodbye()
            reason: str | None = getattr(error, "reason", None)
            raise TlsHandshakeError((reason or str(error)).replace("_", " ").lower()) from None
        self._collect()
        return True

    async def _say_goodbye(self) -> None:
        """Send the alert that says why; without reading the rest, closing would discard it."""
        with trio.move_on_after(_REFUSED_SECONDS_MAX):
            try:
                await self._flush()
                self._socket.shutdown(socket.SHUT_WR)
                while len(await self._receive_some(_HANDSHAKE_RECEIVE_SIZE_BYTES)):
                    pass
            except (ConnectionLostError, OSError):
                pass

    @property
    def peer_certificate(self) -> bytes | None:
        """What the other side showed, in DER; None if it showed none."""
        return None if self._tls is None else self._tls.getpeercert(binary_form=True)

    # --- receiving -----------------------------------------------------------------------------

    def _descriptor(self) -> int:
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise ConnectionLostError("the connection was closed here")
        return descriptor

    async def _receive_some(self, size: int) -> memoryview:
        """Some encrypted bytes, in memory that is good until the next checkpoint."""
        while True:
            try:
                await trio.lowlevel.wait_readable(self._descriptor())
                buffer = _PASSAGE.buffer
                return buffer[: self._socket.recv_into(buffer, size)]
            except BlockingIOError:
                continue
            except (OSError, trio.ClosedResourceError) as error:
                raise ConnectionLostError(str(error)) from None

    async def _fill(self, size: int) -> None:
        """Wait for encrypted bytes."""
        if self._is_at_end:
            return
        self._put(await self._receive_some(size))

    def _put(self, encrypted: memoryview | bytes) -> None:
        if len(encrypted):
            self._incoming.write(encrypted)
        else:
            self._is_at_end = True
            self._incoming.write_eof()

    async def receive(self) -> bytes:
        """Wait until bytes are there (always a checkpoint), then take all that have come."""
        if self._may_have_more:
            chunk = self._decrypt()
            if chunk:
                await trio.lowlevel.checkpoint()
                return chunk
        while not self._is_at_end:
            await self._fill(RECEIVE_SIZE_BYTES)
            chunk = self._decrypt()
            if chunk:
                return chunk
        return b""

    def _decrypt(self) -> bytes:
        """All that can be decrypted; empty if that is nothing."""
        tls, parts = self._open(), list[bytes]()
        self._may_have_more = False
        try:
            while part := tls.read(RECEIVE_SIZE_BYTES):
                parts.append(part)
            self._is_at_end = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._is_at_end = True
        except ssl.SSLError as error:
            raise ConnectionLostError(str(error)) from None
        if self._outgoing.pending:  # new keys, or an alert
            self._collect()
            # The alert about a peer that left without a goodbye reaches nobody.
            with suppress(OSError):
                self._flush_now()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def receive_into(self, view: memoryview) -> int:
        while True:
            filled = self._decrypt_into(view)
            if filled or self._is_at_end:
                return filled
            await self._fill(_LARGE_RECEIVE_SIZE_BYTES)

    def _decrypt_into(self, view: memoryview) -> int:
        tls, filled = self._open(), 0
        try:
            while filled < len(view):
                # With a buffer it returns a number, which typeshed does not know.
                count = cast("int", tls.read(len(view) - filled, cast("Any", view[filled:])))
                if not count:
                    self._is_at_end = True
                    break
                filled += count
            self._may_have_more = True
        except ssl.SSLWantReadError:
            self._may_have_more = False
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._is_at_end = True
        except ssl.SSLError as error:
            raise ConnectionLostError(str(error)) from None
        return filled

    def _open(self) -> ssl.SSLObject:
        if self._tls is None:
            raise ConnectionLostError("the TLS handshake is not complete")
        return self._tls

    # --- sending -------------------------------------------------------------------------------

    def _collect(self) -> None:
        if self._outgoing.pending:
            self._unsent.append(self._outgoing.read())

    def _encrypt(self, piece: Any) -> None:
        if len(piece):
            self._open().write(piece)
            self._collect()

    def _flush_now(self) -> bool:
        """Send what is encrypted, as far as the socket takes it; returns whether that was all.

        Raises:
            OSError: the connection is lost.
        """
        while self._unsent:
            try:
                sent = self._socket.sendmsg(self._unsent)
            except BlockingIOError:
                return False
            self._unsent = rest_of(self._unsent, sent)
        return True

    async def _flush(self) -> None:
        try:
            while not self._flush_now():
                await trio.lowlevel.wait_writable(self._descriptor())
                self.moves += 1
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None

    async def send(self, parts: Sequence[Any]) -> None:
        try:
            for number, piece in enumerate(_pieces(parts), 1):
                self._encrypt(piece)
                await self._flush()
                if number % _PIECES_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
            await self._flush()
        except (OSError, ssl.SSLError) as error:
            raise ConnectionLostError(str(error)) from None

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Send buffers without waiting; see the module about what is returned."""
        try:
            if not self._flush_now():
                return parts
            taken = 0
            while taken < len(parts):
                number = size_bytes = 0
                for part in parts[taken:]:
                    if type(part) is FilePayload or (
                        number and size_bytes + len(part) > _PIECE_SIZE_BYTES
                    ):
                        break
                    number += 1
                    size_bytes += len(part)
                if not number:  # the slice of a file
                    return parts[taken:]
                for piece in _pieces(parts[taken : taken + number]):
                    self._encrypt(piece)
                taken += number
                if not self._flush_now():
                    return parts[taken:] or [b""]
        except (OSError, ConnectionLostError):
            return []
        return []

    # --- the end -------------------------------------------------------------------------------

    def has_peer_left(self) -> bool:
        """Take what has come, as far as there is room for it: behind it may be the end."""
        try:
            while not self._is_at_end and self._incoming.pending < RECEIVE_SIZE_BYTES:
                self._put(self._socket.recv(RECEIVE_SIZE_BYTES))
                self._may_have_more = True
        except BlockingIOError:
            return False
        except OSError:
            return True
        return self._is_at_end

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._tls is not None and not self._unsent:
            with suppress(ssl.SSLError, OSError):  # the other side need not answer
                self._tls.unwrap()
            with suppress(OSError):
                self._collect()
                self._flush_now()
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()


def _pieces(parts: Sequence[Any]) -> Iterator[Any]:
    """The same bytes in pieces that are neither too small nor too large."""
    small: list[Any] = []
    size_bytes = 0
    for part in parts:
        length = len(part)
        if length < _JOINED_SIZE_BYTES_MAX and type(part) is not FilePayload:
            small.append(part)
            size_bytes += length
            if size_bytes >= _PIECE_SIZE_BYTES // 2:
                yield b"".join(small)
                small, size_bytes = [], 0
            continue
        if small:
            yield b"".join(small)
            small, size_bytes = [], 0
        if type(part) is FilePayload:
            yield from _read_pieces(part)
        else:
            with memoryview(cast("bytes", part)) as view:
                for position in range(0, length, _PIECE_SIZE_BYTES):
                    yield view[position : position + _PIECE_SIZE_BYTES]
    if small:
        yield small[0] if len(small) == 1 else b"".join(small)


def _read_pieces(part: FilePayload) -> Iterator[bytes]:
    for position in range(0, part.size_bytes, _PIECE_SIZE_BYTES):
        size = min(_PIECE_SIZE_BYTES, part.size_bytes - position)
        yield FileSlice(part.file, part.position + position, size).read()
