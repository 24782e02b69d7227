"""Invalid requests of brokers to the controller: nothing changes, and the answer says why."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from minikafka.broker.rpc.client import RpcClient
from minikafka.broker.rpc.errors import RpcRemoteError
from minikafka.broker.rpc.identity import Identity
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import encode_request
from minikafka.protocol.messages import metadata
from minikafka.protocol.schema import Request
from tests.broker.rpc.rpc_pair import raw, raw_one_way
from tests.kit.in_process import ClusterNode, ClusterUnderTest, running_cluster
from tests.kit.wire import creatable, create_request

STRANGER = 99


@asynccontextmanager
async def stranger(cluster: ClusterUnderTest, node: ClusterNode) -> AsyncGenerator[RpcClient]:
    """A connection from an unknown node."""
    identity = Identity(STRANGER, b"s" * 16, node.broker.store.cluster_id)
    client = RpcClient(identity, node.node_id, node.broker.node.internal_endpoint)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        yield client
        nursery.cancel_scope.cancel()


REGISTRATION: tuple[Any, ...] = (STRANGER, b"s" * 16, "h", 1, "h", 2, None, -1, [], [])


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("register", None),
        ("register", 7),
        ("register", ()),
        ("register", (STRANGER,)),
        ("register", (1, *REGISTRATION[1:])),  # in the name of another broker
        ("register", (*REGISTRATION[:2], b"h", *REGISTRATION[3:])),
        ("register", (*REGISTRATION[:8], [("name", "host")], [])),
        ("register", (*REGISTRATION[:8], [], [("feature", "1", "2")])),
        ("heartbeat", (STRANGER, 1, 2)),
        ("heartbeat", (STRANGER, 1, 2, 0, False)),
        ("alter-partitions", (STRANGER, 1)),
        ("alter-partitions", (STRANGER, 1, [7])),
        ("alter-partitions", (STRANGER, 1, [(b"i" * 16, 0, 0, 0, [(1,)], -1)])),
        ("alter-partitions", (STRANGER, 1, [(b"i" * 16, 0, 0, 0, None, -1)])),
        ("alter-partitions", (STRANGER, 1, [(b"i" * 16, 0, 0, 0, [], -1)] * 10_001)),
        ("allocate-producer-ids", (STRANGER, "1")),
        ("forward", ()),
        ("forward", ("h", "h")),
    ],
)
async def test_malformed_fields_are_refused(tmp_path: Path, operation: str, fields: Any) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        async with stranger(cluster, cluster.nodes[1]) as client:
            with pytest.raises(RpcRemoteError) as caught:
                await client.call(raw(operation), fields, timeout_s=10)
            assert caught.value.kind == "Malformed"
        assert list(cluster.nodes[1].broker.image.brokers) == [1]


@pytest.mark.parametrize(
    ("operation", "fields", "code"),
    [
        ("heartbeat", (STRANGER, 1, 2, False, False), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("alter-partitions", (STRANGER, 1, []), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("allocate-producer-ids", (STRANGER, 1), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("register", (STRANGER, b"s", *REGISTRATION[2:]), ErrorCode.INVALID_REGISTRATION),
    ],
)
async def test_an_unregistered_broker_changes_nothing(
    tmp_path: Path, operation: str, fields: Any, code: ErrorCode
) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster, AsyncExitStack() as stack:
        client = await stack.enter_async_context(stranger(cluster, cluster.nodes[1]))
        reply = await client.call(raw(operation), fields, timeout_s=10)
        assert reply.message[0] == code
        assert reply.message[2] <= cluster.nodes[1].broker.quorum.applied_index


async def test_an_isr_from_another_broker_than_the_leader_is_refused_individually(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        node = cluster.nodes[1]
        await node.connect().create_topic("t")
        topic_id = node.broker.image.topics["t"].topic_id
        async with stranger(cluster, node) as client:
            assert (await client.call(raw("register"), REGISTRATION, timeout_s=10)).message[0] == 0
            epoch = node.broker.image.brokers[STRANGER].broker_epoch
            proposal = (topic_id, 0, 0, 0, [(STRANGER, epoch)], -1)
            reply = await client.call(
                raw("alter-partitions"), (STRANGER, epoch, [proposal]), timeout_s=10
            )
            code, results, _ = reply.message
            assert code == ErrorCode.NONE
            assert [one[:3] for one in results] == [(topic_id, 0, ErrorCode.INVALID_REQUEST)]
        assert node.partition("t").in_sync_replicas == (1,)


def frame_of(request: Request, version: int) -> bytes:
    return b"".join(encode_request(request, version, 7, "client"))[4:]


CREATE = create_request(creatable("t"))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x13",
        frame_of(metadata.Request(topics=[]), 12),  # nothing for controllers
        b"\x00\x13\x00\x63" + bytes(10),  # CreateTopics 99
        frame_of(CREATE, 7)[:-3],
    ],
)
async def test_frames_that_are_not_for_controllers_are_refused(
    tmp_path: Path, frame: bytes
) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        async with stranger(cluster, cluster.nodes[1]) as client:
            with pytest.raises(RpcRemoteError) as caught:
                await client.call(raw("forward"), ("h",), [frame], timeout_s=10)
            assert caught.value.kind == "Malformed"
            reply = await client.call(raw("forward"), ("h",), [frame_of(CREATE, 7)], timeout_s=10)
            assert b"t" in bytes(reply.attachments[0])
        assert list(cluster.nodes[1].broker.image.topics) == ["t"]


async def test_a_node_that_is_not_the_controller_says_so(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        other = next(one for one in cluster.running if one is not controller)
        async with stranger(cluster, other) as client:
            for operation, fields, attachments in (
                ("heartbeat", (STRANGER, 1, 2, False, False), []),
                ("forward", ("h",), [frame_of(CREATE, 7)]),
            ):
                with pytest.raises(RpcRemoteError) as caught:
                    await client.call(raw(operation), fields, attachments, timeout_s=10)
                assert caught.value.kind == "NotController"


async def test_a_malformed_message_to_the_quorum_ends_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        async with stranger(cluster, cluster.nodes[1]) as client:
            with pytest.raises(RpcRemoteError):
                await client.call(raw("nothing"), None, timeout_s=10)
            assert client.send(raw_one_way("quorum"), [250, "nonsense"])
            await cluster.until(lambda: "a message to the quorum is malformed" in caplog.text)
        assert cluster.nodes[1].is_active_controller
