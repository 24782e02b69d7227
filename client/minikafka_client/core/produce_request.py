"""Batches into a Produce request, and a Produce response into one outcome per batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.schema import ZERO_UUID
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.types import BrokerDescription, TopicPartition

NAMED_TOPICS_VERSION: Final = 12
"""The last version that names topics; later ones have their ids (KIP-516)."""
ANY_VERSION: Final = 32767


def produce_request(
    cluster: Cluster, batches: Sequence[ProducerBatch], *, acks: int, timeout_ms: int
) -> tuple[ProduceRequest, int]:
    """The request and the newest version in which it makes sense."""
    version_max = ANY_VERSION
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        topics.setdefault(batch.topic, []).append(
            PartitionProduceData(index=batch.partition, records=batch.payload)
        )
    topic_data: list[TopicProduceData] = []
    for name, partitions in topics.items():
        known = cluster.topics.get(name)
        topic_id = ZERO_UUID if known is None else known.topic_id
        if topic_id == ZERO_UUID:
            version_max = NAMED_TOPICS_VERSION
        topic_data.append(TopicProduceData(topic_id=topic_id, name=name, partition_data=partitions))
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topic_data), version_max


def read_produce_response(
    cluster: Cluster, response: ProduceResponse
) -> Mapping[tuple[str, int], PartitionProduceResponse]:
    """The outcomes by (topic, partition); new leaders that it names are believed (KIP-951)."""
    for endpoint in response.node_endpoints:
        cluster.learn_broker(
            BrokerDescription(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
        )
    outcomes: dict[tuple[str, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        name = topic.name or cluster.names_by_id.get(topic.topic_id, "")
        for partition in topic.partition_responses:
            outcomes[name, partition.index] = partition
            leader = partition.current_leader
            if leader.leader_id >= 0:
                cluster.lead_moved(
                    TopicPartition(name, partition.index), leader.leader_id, leader.leader_epoch
                )
    return outcomes
