"""DeleteTopics 1-6: delete topics by name, or from version 6 on by topic id (KIP-516).

Each topic succeeds or fails on its own. A duplicate, also one by name and by id, is INVALID_REQUEST
and is not deleted. With ``delete.topic.enable`` off every topic gets TOPIC_DELETION_DISABLED
(INVALID_REQUEST before version 3, which does not have that error). The answer is sent when the
topics are no longer visible; their files are deleted a little later, so ``timeout_ms`` is ignored.
Internal topics can be deleted, as in Kafka. From version 5 on topics above the client's quota of
mutations are refused with THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.decision import Decision, Permits, Refusal
from ...metadata.topics import TopicDeletion, TopicReference, delete_topics
from ...protocol.errors import ErrorCode
from ...protocol.messages import delete_topics as delete_topics_api
from ..quorum.change_error import ChangeError
from ..system.pace import Pace
from .mutation_quota import permits_of

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_TOPIC_IDS_FIRST = 6
_DISABLED_ERROR_FIRST = 3
_STRICT_QUOTA_FIRST = 5


async def handle(
    broker: Broker, context: RequestContext, request: delete_topics_api.Request
) -> delete_topics_api.Response:
    version, pace = context.api_version, Pace(broker.clock.monotonic)
    if version >= _TOPIC_IDS_FIRST:
        references = await pace.every(
            TopicReference(topic.name, topic.topic_id) for topic in request.topics
        )
    else:
        references = await pace.every(TopicReference(name) for name in request.topic_names)
    if not broker.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED
        if version < _DISABLED_ERROR_FIRST:
            code = ErrorCode.INVALID_REQUEST
        refusal = Refusal(code, "Topic deletion is disabled (delete.topic.enable is false).")
        results = await pace.every(TopicDeletion(*one, refusal) for one in references)
    else:
        permits = permits_of(context, strict_from=_STRICT_QUOTA_FIRST)
        results = await _delete(broker, references, pace, permits)
    return delete_topics_api.Response(
        responses=[
            delete_topics_api.DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
            )
            async for name, topic_id, refusal in pace.each(results)
        ]
    )


async def _delete(
    broker: Broker, references: list[TopicReference], pace: Pace, permits: Permits
) -> list[TopicDeletion]:
    """Delete the topics, those of a large request in several decisions."""

    def name_of(reference: TopicReference) -> str | bytes:
        topic = broker.image.topics_by_id.get(reference.topic_id)
        return reference.name or (reference.topic_id if topic is None else topic.name)

    def decide(piece: list[TopicReference]) -> Decision[list[TopicDeletion]]:
        return delete_topics(broker.image, piece, permits)

    results: list[TopicDeletion] = []
    for piece in await pace.pieces(references, name_of):
        try:
            results += await broker.controller.change(partial(decide, piece))
        except ChangeError as error:
            refusal = Refusal(error.error_code, str(error))
            results += [TopicDeletion(*reference, refusal) for reference in piece]
    return results
