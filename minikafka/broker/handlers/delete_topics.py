"""DeleteTopics 1-6: delete topics by name, or from version 6 on by topic id (KIP-516).

Each topic succeeds or fails on its own. A duplicate, also one by name and by id, is INVALID_REQUEST
and is not deleted. With ``delete.topic.enable`` off every topic gets TOPIC_DELETION_DISABLED
(INVALID_REQUEST before version 3, which does not have that error). The answer is sent when the
topics are no longer visible; their files are deleted a little later, so ``timeout_ms`` is ignored.
Internal topics can be deleted, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.topics import TopicReference, delete_topics
from ...protocol.errors import ErrorCode
from ...protocol.messages import delete_topics as delete_topics_api
from ..quorum.change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_TOPIC_IDS_FIRST = 6
_DISABLED_ERROR_FIRST = 3


async def handle(
    broker: Broker, context: RequestContext, request: delete_topics_api.Request
) -> delete_topics_api.Response:
    version = context.api_version
    if version >= _TOPIC_IDS_FIRST:
        references = [TopicReference(topic.name, topic.topic_id) for topic in request.topics]
    else:
        references = [TopicReference(name) for name in request.topic_names]
    if not broker.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED
        if version < _DISABLED_ERROR_FIRST:
            code = ErrorCode.INVALID_REQUEST
        return _all(references, code, "Topic deletion is disabled (delete.topic.enable is false).")
    try:
        results = await broker.controller.change(lambda: delete_topics(broker.image, references))
    except ChangeError as error:
        return _all(references, error.error_code, str(error))
    return delete_topics_api.Response(
        responses=[
            delete_topics_api.DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
            )
            for name, topic_id, refusal in results
        ]
    )


def _all(references: list[TopicReference], code: int, message: str) -> delete_topics_api.Response:
    return delete_topics_api.Response(
        responses=[
            delete_topics_api.DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=code, error_message=message
            )
            for name, topic_id in references
        ]
    )
