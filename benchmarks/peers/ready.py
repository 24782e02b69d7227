"""The ready line of a peer."""

from __future__ import annotations

import trio


async def open_ready(port: int = 0) -> list[trio.SocketListener]:
    """Listen on the loopback interface and print ``ready: HOST:PORT``, as the broker does."""
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    host, bound = listeners[0].socket.getsockname()[:2]
    print(f"ready: {host}:{bound}", flush=True)
    return listeners
