"""What nodes say to each other about the cluster does not wait behind what clients ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from minikafka.broker.control.forwarder import Forwarder
from minikafka.broker.quorum.change_error import ChangeError
from minikafka.broker.rpc import operations, server
from minikafka.broker.rpc.client import CALLS_AT_ONCE_MAX
from minikafka.security.principal import ANONYMOUS
from tests.kit.in_process import ClusterNode, ClusterUnderTest, running_cluster

_ANSWER_SECONDS_MAX = 60.0


class Unanswered:
    """A controller that takes forwarded requests and answers none."""

    def __init__(self) -> None:
        self.count = 0

    async def serve(self, *_: object) -> None:
        self.count += 1
        await trio.sleep_forever()


@asynccontextmanager
async def overwhelmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, size_bytes: int
) -> AsyncGenerator[tuple[ClusterUnderTest, ClusterNode, Unanswered]]:
    """A cluster, and a broker in it that has forwarded as many requests as it can."""
    unanswered = Unanswered()
    monkeypatch.setattr(Forwarder, "_serve", lambda _, *arguments: unanswered.serve(*arguments))
    async with running_cluster(tmp_path) as cluster, trio.open_nursery() as nursery:
        controller = await cluster.controller()
        node = next(one for one in cluster.running if one is not controller)
        frame = memoryview(bytes(size_bytes))
        for _ in range(count):
            nursery.start_soon(node.broker.forwarder.frame, frame, "client", ANONYMOUS)
        yield cluster, node, unanswered
        nursery.cancel_scope.cancel()


async def test_heartbeats_do_not_wait_for_a_thousand_forwarded_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as one connection may have open, and one more, which waits for its turn."""
    count = CALLS_AT_ONCE_MAX
    async with overwhelmed(tmp_path, monkeypatch, count + 1, 10) as (cluster, node, unanswered):
        await cluster.until(lambda: unanswered.count == count)
        lifecycle = node.broker.lifecycle
        lifecycle.controller_lost()
        assert not lifecycle.has_lease
        await cluster.until(lambda: lifecycle.has_lease)
        assert unanswered.count == count


async def test_votes_do_not_wait_for_megabytes_of_forwarded_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server reads no further from a connection that has too many bytes of open requests.

    It notices that with the fifth request, and the sixth waits in the socket.
    """
    size_bytes = 100_000
    monkeypatch.setattr(server, "REQUESTS_SIZE_BYTES_MAX", 4 * size_bytes + size_bytes // 2)
    count = 4 + 2
    async with overwhelmed(tmp_path, monkeypatch, count, size_bytes) as (cluster, node, unanswered):
        await cluster.until(lambda: unanswered.count == count - 1)
        interconnect = node.broker.interconnect
        assert interconnect is not None
        controller = await cluster.controller()
        await interconnect.peers.client(controller.node_id).call(
            operations.PING, None, timeout_s=_ANSWER_SECONDS_MAX
        )
        assert unanswered.count == count - 1


async def test_a_deposed_controller_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers what was forwarded to it; the client is told at once."""
    async with overwhelmed(tmp_path, monkeypatch, 0, 0) as (cluster, node, unanswered):
        controller = await cluster.controller()
        failures: list[str] = []

        async def forward() -> None:
            try:
                await node.broker.forwarder.frame(memoryview(bytes(10)), "client", ANONYMOUS)
            except ChangeError as error:
                failures.append(error.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(forward)
            await cluster.until(lambda: unanswered.count == 1)
            await controller.broker.quorum.transfer_leadership()
        assert "no longer the controller" in failures[0]
