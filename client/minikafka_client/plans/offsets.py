"""Plans for the offsets of partitions: list them, delete the records before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.messages import delete_records as delete_records_api
from minikafka.protocol.messages import list_offsets as list_offsets_api
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.plans.rounds import ask_leaders, by_topic, outcome_of
from minikafka_client.types import (
    MAX_TIMESTAMP,
    IsolationLevel,
    IsolationLevelName,
    OffsetAndTimestamp,
    TopicPartition,
)

CONSUMER_REPLICA_ID = -1
_MAX_TIMESTAMP_VERSION = 7
_ISOLATION_VERSION = 2


def list_offsets(
    cluster: Cluster,
    specs: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel | IsolationLevelName = IsolationLevel.READ_UNCOMMITTED,
) -> Plan[dict[TopicPartition, OffsetAndTimestamp]]:
    """Look up offsets: `EARLIEST`, `LATEST`, `MAX_TIMESTAMP`, or a timestamp in ms.

    A timestamp finds the first record at or after it; offset -1 means that there is none.

    Raises:
        BrokerError: the only partition asked for was refused.
        SomeFailedError: some of several partitions were refused.
    """
    level = IsolationLevel.of(isolation_level)

    def make_call(node: int, asked: Sequence[TopicPartition]) -> Call:
        request = list_offsets_api.Request(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=level,
            topics=[
                list_offsets_api.Topic(
                    name=topic,
                    partitions=[
                        list_offsets_api.Partition(
                            partition_index=index,
                            current_leader_epoch=cluster.leader_epoch(topic, index),
                            timestamp=specs[TopicPartition(topic, index)],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(asked).items()
            ],
            timeout_ms=30_000,
        )
        needs_max_timestamp = any(specs[partition] == MAX_TIMESTAMP for partition in asked)
        needs_isolation = level is IsolationLevel.READ_COMMITTED
        version_min = _ISOLATION_VERSION if needs_isolation else 1
        return Call(node, request, _MAX_TIMESTAMP_VERSION if needs_max_timestamp else version_min)

    def read(
        response: list_offsets_api.Response,
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return {
            TopicPartition(topic.name, partition.partition_index): outcome_of(
                OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch),
                partition.error_code,
                f"offsets of partition {partition.partition_index} of topic {topic.name!r}",
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    return ask_leaders(cluster, specs, make_call, list_offsets_api.Response, read)


def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
) -> Plan[dict[TopicPartition, int]]:
    """Delete the records before an offset (-1: all of them); returns the new log start offsets.

    Raises:
        BrokerError: the only partition asked for was refused (OFFSET_OUT_OF_RANGE, ...).
        SomeFailedError: some of several partitions were refused.
    """

    def make_call(node: int, asked: Sequence[TopicPartition]) -> Call:
        request = delete_records_api.Request(
            topics=[
                delete_records_api.Topic(
                    name=topic,
                    partitions=[
                        delete_records_api.Partition(
                            partition_index=index, offset=before[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(asked).items()
            ],
            timeout_ms=timeout_ms,
        )
        return Call(node, request, timeout_ms=timeout_ms + 5_000)

    def read(response: delete_records_api.Response) -> Mapping[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.name, partition.partition_index): outcome_of(
                partition.low_watermark,
                partition.error_code,
                f"records of partition {partition.partition_index} of topic {topic.name!r}",
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    return ask_leaders(cluster, before, make_call, delete_records_api.Response, read)
