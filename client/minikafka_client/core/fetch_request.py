"""Partitions into a Fetch request, and a Fetch response into one outcome per partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from minikafka.protocol.schema import ZERO_UUID
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.fetch_session import FetchSession, Wanted
from minikafka_client.core.fetcher_messages import FetcherConfig
from minikafka_client.core.partition_reader import PartitionReader
from minikafka_client.types import BrokerDescription, TopicPartition

NAMED_TOPICS_VERSION: Final = 12
"""The last version that names topics; later ones have their ids (KIP-516)."""
ANY_VERSION: Final = 32767
_NO_EPOCH: Final = -1


def fetch_request(
    cluster: Cluster,
    session: FetchSession,
    node: int,
    readers: Sequence[PartitionReader],
    config: FetcherConfig,
    max_bytes: int,
) -> tuple[FetchRequest, int]:
    """The request for a broker, and the newest version in which it makes sense."""
    wanted: dict[TopicPartition, Wanted] = {}
    uses_topic_ids = True
    for reader in readers:
        topic, partition = reader.partition
        known = cluster.topics.get(topic)
        topic_id = ZERO_UUID if known is None else known.topic_id
        uses_topic_ids = uses_topic_ids and topic_id != ZERO_UUID
        # What a follower lacks of the log it may only not have yet: that is no truncation.
        is_from_leader = node != reader.preferred_replica
        wanted[reader.partition] = Wanted(
            topic_id,
            reader.fetch_offset,
            cluster.leader_epoch(topic, partition),
            reader.fetched_epoch if is_from_leader else _NO_EPOCH,
            config.partition_fetch_size_bytes_max,
        )
    part = session.request(wanted, uses_topic_ids=uses_topic_ids)
    request = FetchRequest(
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=config.isolation_level,
        session_id=part.session_id,
        session_epoch=part.epoch,
        topics=part.topics,
        forgotten_topics_data=part.forgotten,
        rack_id=config.client_rack,
    )
    return request, ANY_VERSION if uses_topic_ids else NAMED_TOPICS_VERSION


def read_fetch_response(
    cluster: Cluster, response: FetchResponse
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """The outcomes; new leaders that the response names are believed (KIP-951)."""
    for endpoint in response.node_endpoints:
        cluster.learn_broker(
            BrokerDescription(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
        )
    for topic in response.responses:
        name = topic.topic or cluster.names_by_id.get(topic.topic_id, "")
        for outcome in topic.partitions:
            partition = TopicPartition(name, outcome.partition_index)
            leader = outcome.current_leader
            if leader.leader_id >= 0:
                cluster.lead_moved(partition, leader.leader_id, leader.leader_epoch)
            yield partition, outcome
