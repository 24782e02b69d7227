"""Rules of the APIs of transactional and idempotent producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....metadata.topics import INTERNAL_TOPICS
from ....protocol.errors import ErrorCode
from ....protocol.messages import add_partitions_to_txn as add_partitions_api
from ....security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from .asked import Asked

_OF_BROKERS_FIRST: Final = 4
_REFUSED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _writes(asked: Asked, transactional_id: str) -> bool:
    return asked.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


async def init_producer_id(asked: Asked) -> Any:
    """WRITE of the transactional id, and TWO_PHASE_COMMIT if that is asked for.

    Without a transactional id: IDEMPOTENT_WRITE of the cluster, or WRITE of any topic (KIP-679).
    """
    transactional_id: str | None = asked.request.transactional_id
    if transactional_id is None:
        is_allowed = asked.may_cluster(
            Operation.IDEMPOTENT_WRITE
        ) or asked.authorization.allows_for_any(asked.context, Operation.WRITE, ResourceType.TOPIC)
        return await asked.refuse_if_not(is_allowed, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    is_allowed = _writes(asked, transactional_id) and (
        not asked.request.enable2_pc
        or asked.may(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id)
    )
    return await asked.refuse_if_not(is_allowed, _REFUSED)


async def add_partitions_to_txn(asked: Asked) -> Any:
    """WRITE of the transactional id and of each topic; CLUSTER_ACTION in the brokers' versions.

    One topic that is refused keeps all others out.
    """
    if asked.version >= _OF_BROKERS_FIRST:
        if asked.may_cluster(Operation.CLUSTER_ACTION):
            return await asked.proceed()
        return add_partitions_api.Response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    request = asked.request
    if not _writes(asked, request.v3_and_below_transactional_id):
        return await asked.refuse(_REFUSED)
    topics = request.v3_and_below_topics
    refused = {
        topic.name
        async for topic in asked.pace.each(topics)
        if topic.name in INTERNAL_TOPICS
        or not asked.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
    }
    if not refused:
        return await asked.proceed()
    return add_partitions_api.Response(
        results_by_topic_v3_and_below=[
            add_partitions_api.TopicResult(
                name=topic.name,
                results_by_partition=[
                    add_partitions_api.PartitionResult(
                        partition_index=number,
                        partition_error_code=_not_added(asked, refused, topic.name, number),
                    )
                    async for number in asked.pace.each(topic.partitions)
                ],
            )
            async for topic in asked.pace.each(topics)
        ]
    )


def _not_added(asked: Asked, refused: set[str], name: str, number: int) -> ErrorCode:
    if name in refused:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = asked.broker.image.topics.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.OPERATION_NOT_ATTEMPTED


async def add_offsets_to_txn(asked: Asked) -> Any:
    """WRITE of the transactional id, READ of the group."""
    request = asked.request
    if not _writes(asked, request.transactional_id):
        return await asked.refuse(_REFUSED)
    may_read = asked.may(Operation.READ, ResourceType.GROUP, request.group_id)
    return await asked.refuse_if_not(may_read, ErrorCode.GROUP_AUTHORIZATION_FAILED)


async def end_txn(asked: Asked) -> Any:
    """WRITE of the transactional id."""
    return await asked.refuse_if_not(_writes(asked, asked.request.transactional_id), _REFUSED)


async def write_txn_markers(asked: Asked) -> Any:
    """ALTER or CLUSTER_ACTION of the cluster."""
    is_allowed = asked.may_cluster(Operation.ALTER) or asked.may_cluster(Operation.CLUSTER_ACTION)
    return await asked.refuse_if_not(is_allowed, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def describe_transactions(asked: Asked) -> Any:
    """DESCRIBE of each transactional id; topics that the client must not describe are left out."""

    def rule(transactional_id: str) -> ErrorCode:
        sees = asked.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return ErrorCode.NONE if sees else _REFUSED

    response = await asked.each("transactional_ids", "transaction_states", rule)
    async for state in asked.pace.each(response.transaction_states):
        state.topics = [topic for topic in state.topics if asked.sees_topic(topic.topic)]
    return response


async def list_transactions(asked: Asked) -> Any:
    """The transactional ids that the client may DESCRIBE."""
    response = await asked.proceed()
    response.transaction_states = [
        state
        async for state in asked.pace.each(response.transaction_states)
        if asked.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id)
    ]
    return response
