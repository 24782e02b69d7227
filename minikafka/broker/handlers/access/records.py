"""Rules of the APIs that write, read and delete records, and of those that describe them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import ErrorCode
from ....security.acl import Operation, ResourceType
from ...transport.transport import ConnectionLostError
from .asked import as_response

if TYPE_CHECKING:
    from ...broker import Broker
    from ...control.request_context import RequestContext
    from .asked import Asked

_Handle = Callable[..., Awaitable[Any]]

_ATTRIBUTES: Final = 22
"""Where the low byte of a batch's attributes is."""
_IS_TRANSACTIONAL: Final = 0x10


def produce_quickly(
    handle: _Handle, behind_rule: _Handle, broker: Broker, context: RequestContext, request: Any
) -> Awaitable[Any]:
    """Spare a request for one partition, in no transaction, the rule below if it is allowed."""
    if len(request.topic_data) == 1:
        topic = request.topic_data[0]
        if len(topic.partition_data) == 1 and topic.name and broker.authorization is not None:
            records = topic.partition_data[0].records
            if (
                records is not None
                and len(records) > _ATTRIBUTES
                and not records[_ATTRIBUTES] & _IS_TRANSACTIONAL
                and broker.authorization.allows(
                    context, Operation.WRITE, ResourceType.TOPIC, topic.name
                )
            ):
                return handle(broker, context, request)
    return behind_rule(broker, context, request)


async def produce(asked: Asked) -> Any:
    """WRITE of each topic, and of the transactional id if there are batches of a transaction."""
    request = asked.request
    transactional_id: str | None = request.transactional_id
    if await _has_transaction(asked) and (
        transactional_id is None
        or not asked.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return await _refuse_produce(asked)
    rule = asked.needs_topic(
        Operation.WRITE, lambda topic: asked.name_of_topic(topic.name, topic.topic_id)
    )
    if len(request.topic_data) == 1 and rule(request.topic_data[0]) is ErrorCode.NONE:
        return await asked.proceed()
    allowed: list[Any] = []
    refused: list[Any] = []
    async for topic in asked.pace.each(request.topic_data):
        (allowed if rule(topic) is ErrorCode.NONE else refused).append(topic)
    if not refused:
        return await asked.proceed()
    answer: Any = None
    if allowed:
        request.topic_data = allowed
        answer = await asked.proceed()
    if request.acks == 0:
        raise ConnectionLostError("a produce with acks=0 failed: a topic is not authorized")
    codes = {ErrorCode.TOPIC_AUTHORIZATION_FAILED: refused}
    if answer is None:
        return await asked.add_refused(None, "topic_data", "responses", codes)
    await asked.add_refused(as_response(answer), "topic_data", "responses", codes)
    return answer


async def _refuse_produce(asked: Asked) -> Any:
    if asked.request.acks == 0:
        raise ConnectionLostError("a produce with acks=0 failed: its transactional id")
    return await asked.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


async def _has_transaction(asked: Asked) -> bool:
    async for topic in asked.pace.each(asked.request.topic_data):
        for one in topic.partition_data:
            records = one.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES
                and records[_ATTRIBUTES] & _IS_TRANSACTIONAL
            ):
                return True
    return False


async def list_offsets(asked: Asked) -> Any:
    """DESCRIBE of each topic."""
    return await asked.each("topics", "topics", asked.needs_topic(Operation.DESCRIBE, _name))


async def offset_for_leader_epoch(asked: Asked) -> Any:
    """DESCRIBE of each topic, or CLUSTER_ACTION."""
    if asked.may_cluster(Operation.CLUSTER_ACTION):
        return await asked.proceed()
    rule = asked.needs_topic(Operation.DESCRIBE, lambda topic: topic.topic)
    return await asked.each("topics", "topics", rule)


async def delete_records(asked: Asked) -> Any:
    """DELETE of each topic."""
    return await asked.each("topics", "topics", asked.needs_topic(Operation.DELETE, _name))


async def describe_producers(asked: Asked) -> Any:
    """READ of each topic."""
    return await asked.each("topics", "topics", asked.needs_topic(Operation.READ, _name))


def _name(topic: Any) -> str | None:
    name: str = topic.name
    return name
