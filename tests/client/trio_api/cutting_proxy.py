"""A proxy in front of a broker that cuts connections after so many bytes of its answers."""

from __future__ import annotations

from contextlib import suppress

import trio

_PIECE_SIZE_BYTES = 65_536


class CuttingProxy:
    """Forwards everything; the n-th byte of the broker's answers ends its connection.

    Attributes:
        answered_bytes: how much the broker has answered since the last `cut_after`, over all
            connections.
        cuts: how many connections were cut.
    """

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener
        self._broker = ("", 0)
        self._cut_at: int | None = None
        self.answered_bytes = 0
        self.cuts = 0

    @property
    def port(self) -> int:
        port: int = self._listener.socket.getsockname()[1]
        return port

    def forward_to(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._broker = (host, int(port))

    def cut_after(self, size_bytes: int | None) -> None:
        """Cut once, after so many bytes from now on; None: not at all."""
        self._cut_at = size_bytes
        self.answered_bytes = 0

    async def run(self) -> None:
        await trio.serve_listeners(self._serve, [self._listener])

    async def _serve(self, client: trio.SocketStream) -> None:
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            async with (
                client,
                await trio.open_tcp_stream(*self._broker) as broker,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self._ask, client, broker, nursery.cancel_scope)
                await self._answer(broker, client)
                nursery.cancel_scope.cancel()

    async def _ask(
        self, client: trio.SocketStream, broker: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for piece in client:
                await broker.send_all(piece)
        scope.cancel()

    async def _answer(self, broker: trio.SocketStream, client: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while piece := await broker.receive_some(_PIECE_SIZE_BYTES):
                if self._cut_at is not None and self.answered_bytes + len(piece) > self._cut_at:
                    await client.send_all(piece[: self._cut_at - self.answered_bytes])
                    self._cut_at = None
                    self.cuts += 1
                    return
                self.answered_bytes += len(piece)
                await client.send_all(piece)
