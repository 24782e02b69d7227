"""ConsumerGroupHeartbeat 0-1: join, stay in, and leave a consumer group (KIP-848).

See `minikafka.coordinator.group.consumer`. A subscription by regular expression is matched here, so
that the shard is not kept busy by a cluster of many topics; RE2 decides what is valid, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...coordinator.group.consumer.regex import InvalidRegexError
from ...coordinator.group.consumer.responses import heartbeat_refused
from ...protocol.errors import ErrorCode
from ...protocol.messages import consumer_group_heartbeat

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: consumer_group_heartbeat.Request
) -> consumer_group_heartbeat.Response:
    if "consumer" not in broker.config.group_coordinator_rebalance_protocols:
        return heartbeat_refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "group.coordinator.rebalance.protocols does not have consumer groups.",
        )
    matched: frozenset[str] | None = None
    if request.subscribed_topic_regex:
        try:
            matched = await broker.groups.match_for(
                context, request.group_id, request.subscribed_topic_regex
            )
        except InvalidRegexError as error:
            return heartbeat_refused(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error))
    answer = await broker.groups.ask(request.group_id, request, context, matched)
    return cast("consumer_group_heartbeat.Response", answer)
