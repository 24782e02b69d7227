"""CreatePartitions 0-3: add partitions to topics (KIP-195).

``count`` is the new total. Each topic succeeds or fails on its own; a duplicate name is
INVALID_REQUEST. ``validate_only`` changes nothing. Unlike in Kafka internal topics are refused,
because their partition count determines where each group is stored. From version 3 on partitions
above the client's quota of mutations are refused with THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.decision import Decision, Refusal
from ...metadata.topics import INTERNAL_TOPICS, Growth, grow_topics
from ...protocol.errors import ErrorCode
from ...protocol.messages import create_partitions
from ..quorum.change_error import ChangeError
from ..system.pace import Pace
from .mutation_quota import permits_of

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_STRICT_QUOTA_FIRST = 3


async def handle(
    broker: Broker, context: RequestContext, request: create_partitions.Request
) -> create_partitions.Response:
    permits = permits_of(context, strict_from=_STRICT_QUOTA_FIRST)
    pace = Pace(broker.clock.monotonic)
    asked = request.topics
    internal = [topic.name async for topic in pace.each(asked) if topic.name in INTERNAL_TOPICS]
    growths = [
        _growth(topic) async for topic in pace.each(asked) if topic.name not in INTERNAL_TOPICS
    ]

    def decide(piece: list[Growth]) -> Decision[list[tuple[str, Refusal | None]]]:
        decision = grow_topics(
            broker.image, piece, broker.settings.placement(broker.ids.positive_int()), permits
        )
        return Decision([], decision.result) if request.validate_only else decision

    results: list[tuple[str, Refusal | None]] = []
    for piece in await pace.pieces(growths, lambda growth: growth.name):
        try:
            results += await broker.controller.change(partial(decide, piece))
        except ChangeError as error:
            failed = Refusal(ErrorCode(error.error_code), str(error))
            results += [(name, failed) for name in dict.fromkeys(growth.name for growth in piece)]
    results += [(name, _internal(name)) for name in dict.fromkeys(internal)]
    return create_partitions.Response(
        results=[
            create_partitions.TopicResult(
                name=name,
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
            )
            async for name, refusal in pace.each(results)
        ]
    )


def _growth(topic: create_partitions.Topic) -> Growth:
    assignments = topic.assignments
    if assignments is None:
        return Growth(topic.name, topic.count, None)
    return Growth(topic.name, topic.count, [one.broker_ids for one in assignments])


def _internal(name: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{name}' is internal: with more partitions its groups would no longer be found.",
    )
