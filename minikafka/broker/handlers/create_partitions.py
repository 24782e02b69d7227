"""CreatePartitions 0-3: add partitions to topics (KIP-195).

``count`` is the new total. Each topic succeeds or fails on its own; a name given twice is
INVALID_REQUEST. ``validate_only`` answers the same and changes nothing. Other than in Kafka an
internal topic is refused: its partition count decides which partition keeps which group. Not here:
controller mutation quotas (KIP-599).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.controller import INTERNAL_TOPICS, Decision, Growth, Refusal, grow_topics
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Grow what can be grown."""
    del context
    internal = [topic.name for topic in request.topics if topic.name in INTERNAL_TOPICS]
    growths = [_growth(topic) for topic in request.topics if topic.name not in INTERNAL_TOPICS]

    def decide() -> Decision[list[tuple[str, Refusal | None]]]:
        decision = grow_topics(broker.image, growths, broker.placement())
        return Decision([], decision.result) if request.validate_only else decision

    try:
        results = await broker.change(decide)
    except ChangeError as error:
        failed = Refusal(ErrorCode(error.error_code), str(error))
        results = [(name, failed) for name in dict.fromkeys(growth.name for growth in growths)]
    results += [(name, _internal(name)) for name in dict.fromkeys(internal)]
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name,
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
            )
            for name, refusal in results
        ]
    )


def _growth(topic: CreatePartitionsTopic) -> Growth:
    assignments = topic.assignments
    if assignments is None:
        return Growth(topic.name, topic.count, None)
    return Growth(topic.name, topic.count, [one.broker_ids for one in assignments])


def _internal(name: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{name}' is internal: more partitions would lose the groups that it keeps.",
    )
