"""A connection writes small requests past its writer task: what the peer reads must not show it."""

import socket
import struct

import trio
import trio.testing

from minikafka.protocol.messages import metadata
from minikafka_client.core.wire import Answer
from minikafka_client.options import ConnectionConfig
from minikafka_client.trio_api.connection import Connection

REQUESTS = 60


def request(number: int) -> metadata.Request:
    """One of 1 to 60 KB: a few of them fill a small socket buffer."""
    names = [f"topic-{number}-{index}" for index in range(50 + 3000 * (number % 3 == 2))]
    return metadata.Request(topics=[metadata.RequestTopic(name=name) for name in names])


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection whose buffers are small: TCP takes a part of what does not fit."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        ours = socket.socket()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        ours.connect(server.getsockname())
        theirs, _ = server.accept()
    for one in (ours, theirs):
        one.setblocking(False)
    return ours, theirs


async def read_frames(stream: trio.SocketStream, count: int) -> list[bytes]:
    received = bytearray()
    frames: list[bytes] = []
    while len(frames) < count:
        some = await stream.receive_some(4096)
        assert some, f"it ended after {len(frames)} requests"
        received += some
        while len(received) >= 4:
            end = 4 + struct.unpack_from(">i", received)[0]
            if len(received) < end:
                break
            frames.append(bytes(received[4:end]))
            del received[:end]
    assert not received
    return frames


async def test_requests_arrive_whole_and_in_order_when_the_kernel_takes_only_part_of_them() -> None:
    ours, theirs = tcp_pair()
    peer = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    connection = Connection(
        trio.SocketStream(trio.socket.from_stdlib_socket(ours)), "peer:1", ConnectionConfig()
    )
    answers: list[Answer] = []
    with trio.fail_after(30):
        async with peer, trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            for number in range(REQUESTS):
                connection.submit(request(number), 1, answers.append)
                if number % 7 == 0:
                    await trio.testing.wait_all_tasks_blocked()
            frames = await read_frames(peer, REQUESTS)
            connection.close()
    correlation_ids = [struct.unpack_from(">i", frame, 4)[0] for frame in frames]
    assert correlation_ids == list(range(correlation_ids[0], correlation_ids[0] + REQUESTS))
    for number, frame in enumerate(frames):
        assert f"topic-{number}-49".encode() in frame
    assert len(answers) == REQUESTS  # each failed when the connection closed
