"""How a test and the broker that it started speak: msgpack frames over a socket pair.

A frame is its size (4 bytes, big endian) and a list. A call is ``[number, command, arguments]``,
its answer ``[number, value, error]`` with the number of the call and None where there is no error.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any, Final

import msgpack

CHANNEL_VARIABLE: Final = "MINIKAFKA_TESTING_CHANNEL"
"""The environment variable with the number of the broker's end of the socket pair."""

_SIZE: Final = struct.Struct(">I")
_ANSWER_SECONDS_MAX: Final = 120.0
"""Against a hang. Most commands take milliseconds."""


class CommandError(RuntimeError):
    """The broker did not do what it was told. The message has the broker's reason."""


def pack(message: list[Any]) -> bytes:
    """A frame."""
    body: bytes = msgpack.packb(message)
    return _SIZE.pack(len(body)) + body


def unpack(buffer: bytearray) -> list[Any] | None:
    """Take the first frame from a buffer; None if it is not complete."""
    if len(buffer) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack_from(buffer)
    end = _SIZE.size + size
    if len(buffer) < end:
        return None
    message: list[Any] = msgpack.unpackb(bytes(buffer[_SIZE.size : end]), strict_map_key=False)
    del buffer[:end]
    return message


class Channel:
    """The test's end. Calls from several threads take turns.

    Args:
        name: what errors call the broker.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._ours, self.theirs = socket.socketpair()
        self._ours.settimeout(_ANSWER_SECONDS_MAX)
        self._lock = threading.Lock()
        self._number = 0
        self._received = bytearray()

    def call(self, command: str, **arguments: Any) -> Any:
        """Have the broker do something, and wait until it is done.

        Raises:
            CommandError: it refused, is not running, or did not answer.
        """
        with self._lock:
            self._number += 1
            try:
                self._ours.sendall(pack([self._number, command, arguments]))
                number, value, error = self._receive()
                while number != self._number:  # of a call that was given up
                    number, value, error = self._receive()
            except TimeoutError:
                raise CommandError(
                    f"{self._name} did not answer {command!r} for {_ANSWER_SECONDS_MAX:.0f} s; "
                    "is it paused?"
                ) from None
            except OSError as problem:
                raise CommandError(
                    f"{self._name} cannot be asked for {command!r}: {problem}; is it running?"
                ) from None
        if error is not None:
            raise CommandError(f"{self._name}: {error}")
        return value

    def _receive(self) -> list[Any]:
        while (message := unpack(self._received)) is None:
            piece = self._ours.recv(65_536)
            if not piece:
                raise ConnectionResetError("the process has ended")
            self._received += piece
        return message

    def started(self) -> None:
        """The broker's process has its end now."""
        self.theirs.close()

    def close(self) -> None:
        """Nothing more is asked."""
        self._ours.close()
        self.theirs.close()
