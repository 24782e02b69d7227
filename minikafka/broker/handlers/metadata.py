"""Metadata 0-13: brokers, topics and partitions, by name or (v10, v12) by topic id (KIP-516).

Topics that do not exist are created when the client and ``auto.create.topics.enable`` allow it. As
in Kafka the answer still says UNKNOWN_TOPIC_OR_PARTITION, unless ``minikafka.auto.create.wait`` is
set; but it is sent when the topic is there, so that the client, which asks again, finds it. All
topics are requested with an empty list in version 0, and with null in later ones. Fenced brokers
are not listed, and a partition whose leader is fenced, or on a failed disk, is
LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...metadata.image import TopicImage
from ...metadata.records import NO_LEADER, PartitionRecord
from ...metadata.topics import INTERNAL_TOPICS, topic_name_problem
from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import create_topics as create_topics_api
from ...protocol.messages import metadata
from ..control.topic_creation import create_topics
from ..coordinators.internal_topics import OFFSETS_TOPIC
from ..quorum.change_error import ChangeError
from ..replicas.partition import PartitionError
from ..system.pace import paced
from .authorization import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from .cluster_view import (
    ClusterView,
    addresses_on,
    check_leaders,
    controller_for_clients,
    live_brokers,
)

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


_ASKED_BY_ID_FIRST = 12
_LISTENER_NOT_FOUND_FIRST = 6


async def handle(
    broker: Broker, context: RequestContext, request: metadata.Request
) -> metadata.Response:
    asked, monotonic = request.topics, broker.clock.monotonic
    if asked is not None:
        # A topic that is named a thousand times is still described once, as in Kafka.
        asked = list(
            {(one.name, one.topic_id): one async for one in paced(asked, monotonic)}.values()
        )
    if asked is None or (context.api_version == 0 and not asked):
        await check_leaders(broker, _partitions(broker.image.topics.values()))
        view = ClusterView(broker, context.listener_name)
        every = list(broker.image.topics.values())
        found = [
            describe(view, topic, request, context.api_version)
            async for topic in paced(every, broker.clock.monotonic)
        ]
    elif context.api_version < _ASKED_BY_ID_FIRST and any(map(_is_by_id, asked)):
        # The field exists from version 10 on, but may be used only from version 12 on.
        found = [
            _error(ErrorCode.INVALID_REQUEST, one.name or "", one.topic_id)
            async for one in paced(asked, monotonic)
        ]
    else:
        created = await _create_missing(broker, asked, request)
        hidden = frozenset[str]() if broker.config.minikafka_auto_create_wait else created
        await check_leaders(broker, _partitions(_topic(broker, one) for one in asked))
        view = ClusterView(broker, context.listener_name)
        found = [
            _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, one.name, ZERO_UUID)
            if one.name in hidden
            else _find(broker, view, one, request, context.api_version)
            async for one in paced(asked, broker.clock.monotonic)
        ]
    return metadata.Response(
        brokers=[
            metadata.Broker(node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
            for one in addresses_on(context.listener_name, live_brokers(broker))
        ],
        cluster_id=broker.store.cluster_id,
        controller_id=controller_for_clients(broker, context.listener_name),
        topics=found,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def entries_of(response: metadata.Response) -> int:
    return sum(1 + len(topic.partitions) for topic in response.topics)


def _is_by_id(asked: metadata.RequestTopic) -> bool:
    return asked.name is None or asked.topic_id != ZERO_UUID


async def _create_missing(
    broker: Broker, asked: Sequence[metadata.RequestTopic], request: metadata.Request
) -> frozenset[str]:
    """Create topics if that is allowed; returns the names of those that did not exist."""
    if not (request.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return frozenset()
    config = broker.config
    missing = {
        one.name: None
        async for one in paced(asked, broker.clock.monotonic)
        if one.name and one.name not in broker.image.topics and not topic_name_problem(one.name)
    }
    if not missing:
        return frozenset()
    # A topic that cannot be created is reported as unknown.
    if OFFSETS_TOPIC in missing:
        with suppress(PartitionError, ChangeError):
            await broker.internal_topics.ensure(broker.groups.runtime.topic)
    wanted = [
        create_topics_api.CreatableTopic(
            name=name,
            num_partitions=config.num_partitions,
            replication_factor=config.default_replication_factor,
            assignments=[],
            configs=[],
        )
        for name in missing
        if name not in INTERNAL_TOPICS
    ]
    if wanted:
        with suppress(ChangeError):
            await create_topics(broker.forwarder, wanted)
    return frozenset(missing)


def _partitions(topics: Iterable[TopicImage | None]) -> Iterator[PartitionRecord]:
    return (one for topic in topics if topic is not None for one in topic.partitions)


def _topic(broker: Broker, asked: metadata.RequestTopic) -> TopicImage | None:
    if asked.topic_id != ZERO_UUID:
        return broker.image.topics_by_id.get(asked.topic_id)
    return broker.image.topics.get(asked.name or "")


def _find(
    broker: Broker,
    view: ClusterView,
    asked: metadata.RequestTopic,
    request: metadata.Request,
    api_version: int,
) -> metadata.ResponseTopic:
    topic = _topic(broker, asked)
    if topic is not None:
        return describe(view, topic, request, api_version)
    if asked.topic_id != ZERO_UUID:
        return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
    name = asked.name or ""
    if topic_name_problem(name):
        return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name, ZERO_UUID)
    return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, ZERO_UUID)


def _error(code: ErrorCode, name: str | None, topic_id: bytes) -> metadata.ResponseTopic:
    return metadata.ResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])


def describe(
    view: ClusterView, topic: TopicImage, request: metadata.Request, api_version: int
) -> metadata.ResponseTopic:
    return metadata.ResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(view, topic.name, one, api_version) for one in topic.partitions],
        topic_authorized_operations=(
            TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
        ),
    )


def _partition(
    view: ClusterView, topic: str, image: PartitionRecord, api_version: int
) -> metadata.Partition:
    leader, offline_replicas, lacks_listener = view.partition(topic, image)
    error_code = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
    if lacks_listener and api_version >= _LISTENER_NOT_FOUND_FIRST:
        error_code = ErrorCode.LISTENER_NOT_FOUND
    return metadata.Partition(
        error_code=error_code,
        partition_index=image.partition,
        leader_id=leader,
        leader_epoch=image.leader_epoch,
        replica_nodes=list(image.replicas),
        isr_nodes=list(image.in_sync_replicas),
        offline_replicas=offline_replicas,
    )
