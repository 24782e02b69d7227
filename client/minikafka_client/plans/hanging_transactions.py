"""Plans against transactions that hang: find them, and end them (KIP-664).

A transaction hangs when a partition has it open and its coordinator knows nothing of it. Brokers
with KIP-890 prevent that; what older brokers left stays until it is aborted here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_producers as describe_producers_api
from minikafka.protocol.messages import write_txn_markers
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.plans.rounds import ask_leaders, by_topic, outcome_of
from minikafka_client.plans.topics import describe_topics
from minikafka_client.plans.transaction_admin import describe_transactions, list_transactions
from minikafka_client.types import (
    HangingTransaction,
    ProducerState,
    TopicPartition,
    TransactionDescription,
)

_ENDED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> Plan[dict[TopicPartition, tuple[ProducerState, ...]]]:
    """Describe the producers that partitions remember: idempotent ones, and open transactions.

    Raises:
        BrokerError: the only partition asked for was refused.
        SomeFailedError: some of several partitions were refused.
    """

    def make_call(node: int, asked: Sequence[TopicPartition]) -> Call:
        topics = [
            describe_producers_api.TopicRequest(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(asked).items()
        ]
        return Call(node, describe_producers_api.Request(topics=topics))

    def read(
        response: describe_producers_api.Response,
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
        return {
            TopicPartition(topic.name, one.partition_index): outcome_of(
                tuple(
                    ProducerState(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.coordinator_epoch,
                        producer.current_txn_start_offset,
                    )
                    for producer in one.active_producers
                ),
                one.error_code,
                f"producers of partition {one.partition_index} of topic {topic.name!r}",
                one.error_message,
            )
            for topic in response.topics
            for one in topic.partitions
        }

    return ask_leaders(cluster, partitions, make_call, describe_producers_api.Response, read)


def find_hanging_transactions(
    cluster: Cluster, topics: Iterable[str] | None = None, *, silent_since_ms: int
) -> Plan[list[HangingTransaction]]:
    """Find transactions that are open in partitions, and that their coordinators know nothing of.

    Args:
        cluster: where.
        topics: where to look; None: in all topics, internal ones (of group offsets) included.
        silent_since_ms: only those that wrote nothing after this time, in ms since 1970. Give a
            time that is longer ago than any transaction may last (``transaction.max.timeout.ms``,
            15 minutes by default): younger ones may simply be in progress.

    Raises:
        UnknownTopicError: the only topic does not exist.
        SomeFailedError: some of several brokers, topics or partitions could not be asked.
        KafkaError: the only one could not.
    """
    described = yield from describe_topics(cluster, topics)
    partitions = [
        TopicPartition(name, one.partition)
        for name, topic in described.items()
        for one in topic.partitions
    ]
    producers = yield from describe_producers(cluster, partitions)
    suspects = [
        (partition, producer)
        for partition, states in sorted(producers.items())
        for producer in states
        if producer.transaction_start_offset >= 0 and producer.last_timestamp_ms <= silent_since_ms
    ]
    if not suspects:
        return []
    ids = {producer.producer_id for _, producer in suspects}
    names = {
        one.producer_id: one.transactional_id
        for one in (yield from list_transactions(cluster, producer_ids=sorted(ids)))
    }
    known = yield from _known_to_coordinators(cluster, sorted(set(names.values())))
    return [
        HangingTransaction(partition, producer, names.get(producer.producer_id))
        for partition, producer in suspects
        if (producer.producer_id, partition) not in known
    ]


def _known_to_coordinators(
    cluster: Cluster, transactional_ids: Collection[str]
) -> Plan[set[tuple[int, TopicPartition]]]:
    """The producer ids and partitions of transactions that a coordinator will end."""
    described: dict[str, TransactionDescription] = {}
    for name in transactional_ids:
        try:
            described |= yield from describe_transactions(cluster, [name])
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
    return {
        (one.producer_id, partition)
        for one in described.values()
        if one.state not in _ENDED
        for partition in one.partitions
    }


def abort_hanging_transaction(
    cluster: Cluster, partition: TopicPartition, producer: ProducerState
) -> Plan[None]:
    """Abort a transaction in one partition, without its coordinator.

    Only for one that hangs: of a transaction that its coordinator knows, a part would be aborted
    and the rest perhaps committed. `find_hanging_transactions` tells them apart; `fence_producers`
    ends those that do not hang.

    Args:
        cluster: where.
        partition: the partition that has it open.
        producer: of `describe_producers` or `find_hanging_transactions`.

    Raises:
        BrokerError: the leader refused: INVALID_PRODUCER_EPOCH, the producer has a newer epoch
            now; TRANSACTION_COORDINATOR_FENCED, a newer coordinator has written to it.
    """
    topic, index = partition
    marker = write_txn_markers.Marker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[write_txn_markers.Topic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )

    def make_call(node: int, _: Sequence[TopicPartition]) -> Call:
        return Call(node, write_txn_markers.Request(markers=[marker]), version_min=1)

    def read(response: write_txn_markers.Response) -> Mapping[TopicPartition, KafkaError | None]:
        return {
            TopicPartition(each.name, one.partition_index): outcome_of(
                None,
                one.error_code,
                f"aborting what producer {producer.producer_id} left open in partition "
                f"{one.partition_index} of topic {each.name!r}",
            )
            for answer in response.markers
            for each in answer.topics
            for one in each.partitions
        }

    yield from ask_leaders(cluster, [partition], make_call, write_txn_markers.Response, read)
