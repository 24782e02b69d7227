"""CreateTopics 2-7: make topics, with counts or with an explicit replica assignment.

Each topic succeeds or fails on its own; a name given twice is INVALID_REQUEST. From version 5 on
the answer has the partition count, the replication factor and the effective settings (KIP-525),
from version 7 on the topic id (KIP-516). ``validate_only`` answers the same and makes nothing.
The topics are there, with open logs, when the answer is sent, so ``timeout_ms`` has no meaning.
Not here: controller mutation quotas (KIP-599).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...metadata.controller import Decision, Refusal, create_topics
from ...metadata.image import TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..change_error import ChangeError
from ..setting_entries import overridden, topic_entries

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_TOPICS_PER_CHECKPOINT = 64
_Results = list[tuple[str, TopicImage | Refusal]]


async def handle(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Decide about all topics together, make them, and show them."""
    del context

    def decide() -> Decision[_Results]:
        decision = create_topics(broker.image, request.topics, broker.placement(), broker.random_id)
        return Decision([], decision.result) if request.validate_only else decision

    try:
        results = await broker.change(decide)
    except ChangeError as error:
        failed = Refusal(ErrorCode(error.error_code), str(error))
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(topics=[_refused(name, failed) for name in names])
    wanted = {topic.name: topic for topic in request.topics}
    shown = _Settings(broker)
    answers: list[CreatableTopicResult] = []
    for number, (name, result) in enumerate(results):
        if isinstance(result, Refusal):
            answers.append(_refused(name, result))
        else:
            answers.append(_created(result, shown.of(wanted[name])))
        if number % _TOPICS_PER_CHECKPOINT == _TOPICS_PER_CHECKPOINT - 1:
            await trio.lowlevel.checkpoint()
    return CreateTopicsResponse(topics=answers)


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=refusal.error_code, error_message=refusal.message
    )


def _created(topic: TopicImage, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs,
    )


class _Settings:
    """Effective settings of the topics of one request; most requests give all the same."""

    def __init__(self, broker: Broker) -> None:
        self._entries = topic_entries(broker)
        self._shown: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def of(self, topic: CreatableTopic) -> list[CreatableTopicConfigs]:
        """The settings of a topic with what the request set on it."""
        overrides = {one.name: one.value for one in topic.configs if one.value is not None}
        key = frozenset(overrides.items())
        shown = self._shown.get(key)
        if shown is None:
            shown = self._shown[key] = [
                CreatableTopicConfigs(
                    name=entry.setting.name,
                    value=entry.value,
                    read_only=False,
                    config_source=entry.source,
                    is_sensitive=False,
                )
                for entry in overridden(self._entries, overrides)
            ]
        return shown
