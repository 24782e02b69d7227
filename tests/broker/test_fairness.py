"""One busy client does not block the others."""

import socket
from contextlib import ExitStack
from pathlib import Path

import trio

from minikafka.broker.net.server import BoundListener, Server, bind
from minikafka.broker.system.clock import SystemClock
from minikafka.protocol.frames import encode_request
from minikafka.protocol.messages import metadata
from tests.kit.in_process import running_broker

REQUESTS = 600


class SteppingClock(SystemClock):
    """A clock that advances a millisecond at every reading."""

    def __init__(self) -> None:
        self._looks = 0

    def monotonic(self) -> float:
        self._looks += 1
        return self._looks / 1000


async def test_a_client_that_sends_many_requests_does_not_block_others(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        under_test.broker.clock = SteppingClock()
        busy = under_test.connect()
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        request = b"".join(encode_request(metadata.Request(topics=[]), 9, 1, "busy"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            await busy.send_bytes(request * REQUESTS)
            for _ in range(REQUESTS):
                await busy.receive_frame()
            nursery.cancel_scope.cancel()
        assert turns > REQUESTS // 10


async def test_the_connection_limit_holds_for_simultaneous_connections(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "max.connections=3") as under_test:
        listener = bind("127.0.0.1", 0, 100)
        server = Server(under_test.broker)
        address = ("127.0.0.1", listener.getsockname()[1])
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(address)) for _ in range(10)]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.serve, [BoundListener(listener)])
                for client in clients[3:]:
                    client.setblocking(False)
                    await trio.lowlevel.wait_readable(client)
                    assert client.recv(1) == b""
                assert len(server.connections) == 3
                server.stop()
