"""A plan that asks leaders where an epoch ended (KIP-101), to detect lost records (KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.messages import offset_for_leader_epoch
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.plans.rounds import ask_leaders, by_topic, outcome_of
from minikafka_client.types import TopicPartition

CONSUMER_REPLICA_ID = -1


def epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int]
) -> Plan[dict[TopicPartition, int]]:
    """Ask for the end of the largest epoch that is not greater than the given one.

    Returns:
        The offset after its last record; -1 if the leader knows no such epoch.

    Raises:
        BrokerError: the only partition asked for was refused.
        SomeFailedError: some of several partitions were refused.
    """

    def make_call(node: int, asked: Sequence[TopicPartition]) -> Call:
        request = offset_for_leader_epoch.Request(
            replica_id=CONSUMER_REPLICA_ID,
            topics=[
                offset_for_leader_epoch.Topic(
                    topic=topic,
                    partitions=[
                        offset_for_leader_epoch.Partition(
                            partition=index,
                            current_leader_epoch=cluster.leader_epoch(topic, index),
                            leader_epoch=epochs[TopicPartition(topic, index)],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(asked).items()
            ],
        )
        return Call(node, request, version_min=2)

    def read(
        response: offset_for_leader_epoch.Response,
    ) -> Mapping[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.topic, each.partition): outcome_of(
                each.end_offset,
                each.error_code,
                f"leader epochs of partition {each.partition} of topic {topic.topic!r}",
            )
            for topic in response.topics
            for each in topic.partitions
        }

    found = yield from ask_leaders(
        cluster, epochs, make_call, offset_for_leader_epoch.Response, read
    )
    return found
