"""Cuts a process off as a broken network does: nothing arrives, nothing is refused, nobody is told.

The kernel drops what comes in at a socket with a filter that keeps nothing (``SO_ATTACH_FILTER``,
which needs no rights). TCP repeats what was dropped, so after the filter is gone a connection goes
on, unless one side has given it up meanwhile. Only Linux has this.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import trio

_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_KEEP_NOTHING: Final = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
"""One instruction of the classic packet filter: return 0."""


def make_deaf(one: socket.socket) -> None:
    """Drop everything that arrives at a socket from now on."""
    program = struct.pack("HL", 1, ctypes.addressof(_KEEP_NOTHING))
    one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def heal(one: socket.socket) -> None:
    """Let a socket receive again."""
    with suppress(OSError):  # it has no filter
        one.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


@contextmanager
def _borrowed(descriptor: int) -> Generator[socket.socket]:
    one = socket.socket(fileno=descriptor)
    try:
        yield one
    finally:
        one.detach()


def sockets() -> Iterator[socket.socket]:
    """The TCP sockets of this process, one at a time."""
    for name in os.listdir("/proc/self/fd"):
        try:
            is_socket = os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
        if is_socket:
            with _borrowed(int(name)) as one:
                is_tcp = one.family in {socket.AF_INET, socket.AF_INET6}
                if is_tcp and one.type == socket.SOCK_STREAM:
                    yield one


def _remote_port(one: socket.socket) -> int:
    try:
        return int(one.getpeername()[1])
    except OSError:
        return 0


class Deafness(trio.abc.SocketFactory):
    """Which connections of this process are cut.

    It makes the sockets that this process connects, so that new ones are cut, too.
    """

    def __init__(self) -> None:
        self._is_deaf = False  # to peers, the only ones that this process connects to

    def socket(
        self,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,  # noqa: A002 - the name of the method that it overrides
        proto: int = 0,
    ) -> trio.socket.SocketType:
        """A socket, deaf if the process is."""
        plain = socket.socket(family, type, proto)
        if self._is_deaf:
            make_deaf(plain)
        return trio.socket.from_stdlib_socket(plain)

    def cut_off(self, client_port: int, *, clients: bool, peers: bool) -> list[int]:
        """Hear nothing any longer from clients, from other nodes, or from both.

        Args:
            client_port: where clients connect.
            clients: be deaf to clients.
            peers: be deaf to other nodes.

        Returns:
            The ports of this side of what was cut.

        Raises:
            NotImplementedError: the system has no such filters.
        """
        _check_system()
        self._is_deaf = self._is_deaf or peers
        ports: list[int] = []
        for one in sockets():
            port = int(one.getsockname()[1])
            if clients if port == client_port else peers:
                make_deaf(one)
                ports.append(port)
        return ports

    def ignore(self, ports: Collection[int]) -> None:
        """Hear nothing from the sockets with these ports."""
        _check_system()
        for one in sockets():
            if _remote_port(one) in ports:
                make_deaf(one)

    def heal(self) -> None:
        """Hear everything again."""
        self._is_deaf = False
        for one in sockets():
            heal(one)


def _check_system() -> None:
    if sys.platform != "linux":
        raise NotImplementedError("only Linux can cut a process off without rights")
