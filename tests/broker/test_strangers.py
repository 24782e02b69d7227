"""What a process that is no node of the cluster gets from its internal listener."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from minikafka.broker.rpc import operations
from minikafka.broker.rpc.client import RpcClient
from minikafka.broker.rpc.errors import RpcRemoteError
from minikafka.broker.rpc.identity import Identity
from minikafka.consensus.messages import VoteRequest, split_message
from tests.kit.in_process import ClusterNode, running_cluster

FETCH = operations.ReplicaFetch(7, 0, 1, 0, 1, 1000, 1000, (), (), ())


@asynccontextmanager
async def stranger(
    to: ClusterNode, node_id: int, cluster_id: str, *, broken: list[int] | None = None
) -> AsyncGenerator[RpcClient]:
    """Another process says that it is a node, and connects to one; ``broken`` gets what ends."""
    ended = [] if broken is None else broken
    identity = Identity(node_id, b"forged", cluster_id)
    interconnect = to.broker.interconnect
    assert interconnect is not None
    client = RpcClient(identity, to.node_id, interconnect.identity.address, on_broken=ended.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        await client.connected(timeout_s=30)
        yield client
        nursery.cancel_scope.cancel()


async def test_an_epoch_that_no_elections_can_explain_ends_the_connection_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        epoch = controller.broker.quorum.epoch
        other = next(one for one in cluster.nodes if one != controller.node_id)
        broken: list[int] = []
        async with stranger(controller, other, "", broken=broken) as client:
            message = VoteRequest(2**63 - 1, 1, 1, False)
            client.send(operations.QUORUM, split_message(message)[0])
            await cluster.until(lambda: broken)
        assert controller.broker.quorum.epoch == epoch
        assert "a message to the quorum is malformed: 9223372036854775807" in caplog.text


async def test_positions_are_believed_only_from_the_process_that_is_registered(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        cluster_id = controller.broker.store.cluster_id
        other = next(one for one in cluster.nodes if one != controller.node_id)
        async with stranger(controller, other, cluster_id) as client:
            with pytest.raises(RpcRemoteError, match="process that is registered as broker"):
                await client.call(operations.REPLICA_FETCH, FETCH, timeout_s=30)
        async with stranger(controller, other, "") as client:
            with pytest.raises(RpcRemoteError, match="know which cluster they belong to"):
                await client.call(operations.REPLICA_FETCH, FETCH, timeout_s=30)
