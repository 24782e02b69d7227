"""Speaks TLS with clients and plain TCP with a broker, in threads of its own."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

_PIECE_SIZE_BYTES = 65_536


class TlsProxy:
    """``with TlsProxy(context) as proxy: proxy.broker = ("127.0.0.1", 9092)``.

    Attributes:
        address: where it listens.
        broker: where it forwards to.
        peers: the names in the clients' certificates, if they have any.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.broker = ("127.0.0.1", 0)
        self.peers: list[str] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            closing(client),
            suppress(OSError),
            self._context.wrap_socket(client, server_side=True) as secured,
            socket.create_connection(self.broker) as broker,
        ):
            certificate = secured.getpeercert()
            if certificate:
                self.peers.append(str(certificate["subject"]))
            threading.Thread(target=_copy, args=(broker, secured), daemon=True).start()
            _copy(secured, broker)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE_SIZE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
