"""CreateTopics 2-7: create topics, with counts or with an explicit replica assignment.

Each topic succeeds or fails on its own; a duplicate name is INVALID_REQUEST. From version 5 on the
answer has the partition count, the replication factor and the effective settings (KIP-525), from
version 7 on the topic id (KIP-516). ``validate_only`` creates nothing. The topics exist, with open
logs, when the answer is sent, so ``timeout_ms`` is ignored. From version 6 on topics above the
client's quota of mutations are refused with THROTTLING_QUOTA_EXCEEDED (KIP-599); older clients have
to wait before their next request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.decision import Decision, Permits, Refusal
from ...metadata.image import TopicImage
from ...metadata.setting_changes import Resource
from ...metadata.topics import PARTITIONS_PER_REQUEST_MAX, create_topics, partitions_wanted
from ...protocol.errors import ErrorCode
from ...protocol.messages import create_topics as create_topics_api
from ..quorum.change_error import ChangeError
from ..system.pace import Pace
from .config_entries import overridden, topic_entries
from .config_resources import ResourceType, warn_without_effect
from .mutation_quota import permits_of

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_STRICT_QUOTA_FIRST = 6
_Results = list[tuple[str, TopicImage | Refusal]]


async def handle(
    broker: Broker, context: RequestContext, request: create_topics_api.Request
) -> create_topics_api.Response:
    pace = Pace(broker.clock.monotonic)
    permits = permits_of(context, strict_from=_STRICT_QUOTA_FIRST)
    results = await _create(broker, request, pace, permits)
    wanted = {topic.name: topic async for topic in pace.each(request.topics)}
    shown = _Settings(broker)
    answers: list[create_topics_api.CreatableTopicResult] = []
    async for name, result in pace.each(results):
        if isinstance(result, Refusal):
            answers.append(_refused(name, result))
        else:
            answers.append(_created(result, shown.of(wanted[name])))
            if wanted[name].configs and not request.validate_only:
                warn_without_effect(
                    Resource(ResourceType.TOPIC, name), [one.name for one in wanted[name].configs]
                )
    return create_topics_api.Response(topics=answers)


async def _create(
    broker: Broker, request: create_topics_api.Request, pace: Pace, permits: Permits
) -> list[tuple[str, TopicImage | Refusal]]:
    """Create the topics, those of a large request in several decisions."""
    placement = broker.settings.placement(broker.ids.positive_int())

    def weight(topic: create_topics_api.CreatableTopic) -> int:
        return max(1, partitions_wanted(topic, placement))

    def decide(piece: list[create_topics_api.CreatableTopic], left: int) -> Decision[_Results]:
        decision = create_topics(
            broker.image,
            piece,
            broker.settings.placement(broker.ids.positive_int()),
            broker.ids.topic_id,
            partitions_max=left,
            permits=permits,
        )
        return Decision([], decision.result) if request.validate_only else decision

    results: _Results = []
    partitions_left = PARTITIONS_PER_REQUEST_MAX
    for piece in await pace.pieces(request.topics, lambda topic: topic.name, weight):
        try:
            results += await broker.controller.change(partial(decide, piece, partitions_left))
        except ChangeError as error:
            failed = Refusal(ErrorCode(error.error_code), str(error))
            results += [(name, failed) for name in dict.fromkeys(topic.name for topic in piece)]
        partitions_left = max(0, partitions_left - sum(map(weight, piece)))
    return results


def _refused(name: str, refusal: Refusal) -> create_topics_api.CreatableTopicResult:
    return create_topics_api.CreatableTopicResult(
        name=name, error_code=refusal.error_code, error_message=refusal.message
    )


def _created(
    topic: TopicImage, configs: list[create_topics_api.CreatableTopicConfigs]
) -> create_topics_api.CreatableTopicResult:
    return create_topics_api.CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs,
    )


class _Settings:
    """Effective settings of the new topics; cached, because most requests give all the same."""

    def __init__(self, broker: Broker) -> None:
        self._entries = topic_entries(broker.settings)
        self._shown: dict[
            frozenset[tuple[str, str]], list[create_topics_api.CreatableTopicConfigs]
        ] = {}

    def of(
        self, topic: create_topics_api.CreatableTopic
    ) -> list[create_topics_api.CreatableTopicConfigs]:
        overrides = {one.name: one.value for one in topic.configs if one.value is not None}
        key = frozenset(overrides.items())
        shown = self._shown.get(key)
        if shown is None:
            shown = self._shown[key] = [
                create_topics_api.CreatableTopicConfigs(
                    name=entry.setting.name,
                    value=entry.value,
                    read_only=False,
                    config_source=entry.source,
                    is_sensitive=False,
                )
                for entry in overridden(self._entries, overrides)
            ]
        return shown
