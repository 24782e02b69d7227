"""Plans for the offsets of partitions: list them, delete the records before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError
from minikafka_client.plans.ask import Call, Plan
from minikafka_client.plans.rounds import ask_leaders, by_topic, outcome_of
from minikafka_client.types import MAX_TIMESTAMP, IsolationLevel, OffsetAndTimestamp, TopicPartition

CONSUMER_REPLICA_ID = -1
_MAX_TIMESTAMP_VERSION = 7
_ISOLATION_VERSION = 2


def list_offsets(
    cluster: Cluster,
    specs: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Plan[dict[TopicPartition, OffsetAndTimestamp]]:
    """Look up offsets: `EARLIEST`, `LATEST`, `MAX_TIMESTAMP`, or a timestamp in ms.

    A timestamp finds the first record that is as late; offset -1 says that there is none.

    Raises:
        BrokerError: the only partition asked for was refused.
        SomeFailedError: some of several partitions were refused.
    """

    def make_call(node: int, asked: Sequence[TopicPartition]) -> Call:
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
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
        needs_isolation = isolation_level is IsolationLevel.READ_COMMITTED
        version_min = _ISOLATION_VERSION if needs_isolation else 1
        return Call(node, request, _MAX_TIMESTAMP_VERSION if needs_max_timestamp else version_min)

    def read(
        response: ListOffsetsResponse,
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

    found = yield from ask_leaders(cluster, specs, make_call, ListOffsetsResponse, read)
    return found


def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
) -> Plan[dict[TopicPartition, int]]:
    """Delete the records before an offset (-1: all of them); returns the new log start offsets.

    Raises:
        BrokerError: the only partition asked for was refused (OFFSET_OUT_OF_RANGE, ...).
        SomeFailedError: some of several partitions were refused.
    """

    def make_call(node: int, asked: Sequence[TopicPartition]) -> Call:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(
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

    def read(response: DeleteRecordsResponse) -> Mapping[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.name, partition.partition_index): outcome_of(
                partition.low_watermark,
                partition.error_code,
                f"records of partition {partition.partition_index} of topic {topic.name!r}",
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    deleted = yield from ask_leaders(cluster, before, make_call, DeleteRecordsResponse, read)
    return deleted
