"""Metadata 0-13: brokers, topics and partitions, by name or (v10, v12) by topic id (KIP-516).

Topics that do not exist are created when the client and ``auto.create.topics.enable`` allow it;
other than in Kafka they are there in the same answer, so that clients need no retry. Version 0 asks
for all topics with an empty list, later ones with null. Brokers that are fenced are not listed, and
a partition whose leader is one of them, or on a disk that failed, is LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...metadata.controller import INTERNAL_TOPICS, topic_name_problem
from ...metadata.image import NO_LEADER, PartitionImage, TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import CreatableTopic
from ...protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.schema import ZERO_UUID
from ..change_error import ChangeError
from ..cluster_view import (
    ClusterView,
    check_leaders,
    controller_for_clients,
    live_brokers,
)
from ..groups import OFFSETS_TOPIC
from ..partition import PartitionError
from .authorization import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


_ASKED_BY_ID_FIRST = 12


async def handle(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse:
    """Describe the cluster and the topics asked for."""
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        await check_leaders(broker, _partitions(broker.image.topics.values()))
        view = ClusterView(broker)
        found = [describe(view, topic, request) for topic in broker.image.topics.values()]
    elif context.api_version < _ASKED_BY_ID_FIRST and any(map(_is_by_id, asked)):
        # The field is there from version 10 on, its meaning only from 12 on.
        found = [_error(ErrorCode.INVALID_REQUEST, one.name or "", one.topic_id) for one in asked]
    else:
        await _create_missing(broker, asked, request)
        await check_leaders(broker, _partitions(_topic(broker, one) for one in asked))
        view = ClusterView(broker)
        found = [_find(broker, view, one, request) for one in asked]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack
            )
            for one in live_brokers(broker)
        ],
        cluster_id=broker.cluster_id,
        controller_id=controller_for_clients(broker),
        topics=found,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _is_by_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != ZERO_UUID


async def _create_missing(
    broker: Broker, asked: Sequence[MetadataRequestTopic], request: MetadataRequest
) -> None:
    if not (request.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return
    config = broker.config
    missing = dict.fromkeys(
        one.name
        for one in asked
        if one.name and one.name not in broker.image.topics and not topic_name_problem(one.name)
    )
    if not missing:
        return
    # A topic that cannot be made is not there, and the answer says so.
    if OFFSETS_TOPIC in missing:
        with suppress(PartitionError, ChangeError):
            await broker.groups.ensure_topic()
    wanted = [
        CreatableTopic(
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
            await broker.create_topics(wanted)


def _partitions(topics: Iterable[TopicImage | None]) -> Iterator[PartitionImage]:
    return (one for topic in topics if topic is not None for one in topic.partitions)


def _topic(broker: Broker, asked: MetadataRequestTopic) -> TopicImage | None:
    if asked.topic_id != ZERO_UUID:
        return broker.image.topics_by_id.get(asked.topic_id)
    return broker.image.topics.get(asked.name or "")


def _find(
    broker: Broker, view: ClusterView, asked: MetadataRequestTopic, request: MetadataRequest
) -> MetadataResponseTopic:
    topic = _topic(broker, asked)
    if topic is not None:
        return describe(view, topic, request)
    if asked.topic_id != ZERO_UUID:
        return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
    name = asked.name or ""
    if topic_name_problem(name):
        return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name, ZERO_UUID)
    return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, ZERO_UUID)


def _error(code: ErrorCode, name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])


def describe(
    view: ClusterView, topic: TopicImage, request: MetadataRequest
) -> MetadataResponseTopic:
    """One topic as Metadata shows it."""
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(view, topic.name, one) for one in topic.partitions],
        topic_authorized_operations=(
            TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
        ),
    )


def _partition(view: ClusterView, topic: str, image: PartitionImage) -> MetadataResponsePartition:
    leader, offline_replicas = view.partition(topic, image)
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
        partition_index=image.partition,
        leader_id=leader,
        leader_epoch=image.leader_epoch,
        replica_nodes=list(image.replicas),
        isr_nodes=list(image.in_sync_replicas),
        offline_replicas=offline_replicas,
    )
