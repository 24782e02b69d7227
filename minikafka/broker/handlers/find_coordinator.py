"""FindCoordinator 0-6: where a group's coordinator is; several keys at once from v4 (KIP-699).

``__consumer_offsets`` is created at the first question. The coordinator is the leader of the
partition that keeps the group; without one the answer is COORDINATOR_NOT_AVAILABLE, and clients ask
again. Likewise transactional ids (key type 1) and ``__transaction_state``. Share groups (key type
2, v6) are not there: the answer is a non-retriable error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...metadata.image import BrokerImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ..change_error import ChangeError
from ..cluster_view import ClusterView, check_leaders
from ..partition import PartitionError
from ..shard_runtime import ShardRuntime

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_MANY_KEYS_FIRST = 4
_GROUP, _TRANSACTION = 0, 1


async def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Answer for each key."""
    is_many = context.api_version >= _MANY_KEYS_FIRST
    keys = request.coordinator_keys if is_many else [request.key]
    found = [await _find(broker, key, request.key_type) for key in keys]
    if is_many:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(broker: Broker, key: str, key_type: int) -> Coordinator:
    try:
        runtime = _runtime(broker, key, key_type)
        await runtime.ensure_topic()
        found = await _coordinator(broker, runtime, key)
    except PartitionError as error:
        return _failed(key, error.error_code, str(error))
    except ChangeError as error:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    return Coordinator(
        key=key,
        node_id=found.broker_id,
        host=found.host,
        port=found.port,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def _failed(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )


async def _coordinator(broker: Broker, runtime: ShardRuntime[Any], key: str) -> BrokerImage:
    topic = broker.image.topics.get(runtime.topic.name)
    if topic is None:
        raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "its topic is being made")
    number = runtime.partition_of(key)
    await check_leaders(broker, [topic.partitions[number]])
    partition = topic.partitions[number]
    leader = broker.image.brokers.get(ClusterView(broker).partition(topic.name, partition).leader)
    if leader is None:
        raise PartitionError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"{topic.name}-{partition.partition} has no leader at the moment",
        )
    return leader


def _runtime(broker: Broker, key: str, key_type: int) -> ShardRuntime[Any]:
    if key_type == _GROUP:
        # Kafka finds a coordinator for the empty group too: old simple consumers have no name.
        return broker.groups.runtime
    if key_type == _TRANSACTION and key:
        return broker.transactions.runtime
    raise PartitionError(
        ErrorCode.INVALID_REQUEST, f"no coordinators for key {key!r} of type {key_type} exist here"
    )
