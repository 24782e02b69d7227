"""FindCoordinator 0-6: the coordinator of a group; several keys from v4 on (KIP-699).

The coordinator is the leader of the group's partition of ``__consumer_offsets``; without one the
answer is COORDINATOR_NOT_AVAILABLE, and clients retry. For transactional ids (key type 1) it is
``__transaction_state``, and for share-partitions (key type 2, v6; the key is group, topic id and
partition with colons between them) ``__share_group_state``. These topics are created with the first
request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from ...protocol.messages import find_coordinator
from ..coordinators.runtime import ShardRuntime
from ..quorum.change_error import ChangeError
from ..replicas.partition import PartitionError
from ..system.pace import paced
from .cluster_view import BrokerAddress, ClusterView, addresses_on, check_leaders

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_MANY_KEYS_FIRST = 4
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_SHARE_KEY_PARTS = 3


async def handle(
    broker: Broker, context: RequestContext, request: find_coordinator.Request
) -> find_coordinator.Response:
    is_many = context.api_version >= _MANY_KEYS_FIRST
    keys = request.coordinator_keys if is_many else [request.key]
    found = [
        await _find(broker, context, key, request.key_type)
        async for key in paced(keys, broker.clock.monotonic)
    ]
    if is_many:
        return find_coordinator.Response(coordinators=found)
    one = found[0]
    return find_coordinator.Response(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(
    broker: Broker, context: RequestContext, key: str, key_type: int
) -> find_coordinator.Coordinator:
    try:
        runtime = _runtime(broker, key, key_type)
        await broker.internal_topics.ensure(runtime.topic)
        found = await _coordinator(broker, context.listener_name, runtime, key)
    except PartitionError as error:
        return _failed(key, error.error_code, str(error))
    except ChangeError as error:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    return find_coordinator.Coordinator(
        key=key,
        node_id=found.broker_id,
        host=found.host,
        port=found.port,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def _failed(key: str, code: ErrorCode, message: str) -> find_coordinator.Coordinator:
    return find_coordinator.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )


async def _coordinator(
    broker: Broker, listener: str, runtime: ShardRuntime[Any], key: str
) -> BrokerAddress:
    topic = broker.image.topics.get(runtime.topic.name)
    if topic is None:
        raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "its topic is being created")
    number = runtime.partition_of(key)
    await check_leaders(broker, [topic.partitions[number]])
    partition = topic.partitions[number]
    view = ClusterView(broker, listener)
    leader = broker.image.brokers.get(view.partition(topic.name, partition).leader)
    found = addresses_on(listener, () if leader is None else (leader,))
    if not found:
        raise PartitionError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"{topic.name}-{partition.partition} has no leader at the moment",
        )
    return found[0]


def _runtime(broker: Broker, key: str, key_type: int) -> ShardRuntime[Any]:
    if key_type == _GROUP:
        # As in Kafka the empty group has a coordinator, too: old simple consumers have no group id.
        return broker.groups.runtime
    if key_type == _TRANSACTION and key:
        return broker.transactions.runtime
    if key_type == _SHARE and len(key.rsplit(":", _SHARE_KEY_PARTS - 1)) == _SHARE_KEY_PARTS:
        return broker.share_state.runtime
    raise PartitionError(
        ErrorCode.INVALID_REQUEST, f"key {key!r} of type {key_type} cannot have a coordinator"
    )
