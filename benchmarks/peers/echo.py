"""A TCP server that echoes: the least that a trio server can cost per request.

It is as in trio's own tutorial: a bare `SocketStream`.
"""

from __future__ import annotations

import trio

from .ready import open_ready

_RECEIVE_SIZE_BYTES = 65_536


async def _echo(stream: trio.SocketStream) -> None:
    try:
        while received := await stream.receive_some(_RECEIVE_SIZE_BYTES):
            await stream.send_all(received)
    except trio.BrokenResourceError:
        return


async def _serve() -> None:
    await trio.serve_listeners(_echo, await open_ready())


if __name__ == "__main__":
    trio.run(_serve)
