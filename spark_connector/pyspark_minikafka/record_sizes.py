"""A plan that estimates how large the records of partitions are, from the sizes of their logs.

Offsets do not say how much there is to read: a thousand records may be 100 KB or 1 GB. The estimate
decides which ranges share a task, and how much a task fetches at once.
"""

from __future__ import annotations

from collections.abc import Collection

from minikafka.protocol.messages import describe_log_dirs
from minikafka_client.core.cluster import Cluster
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.plan import Call, Plan, call_all
from minikafka_client.plans.rounds import by_topic
from minikafka_client.types import EARLIEST, LATEST, TopicPartition


def record_sizes(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> Plan[dict[TopicPartition, int]]:
    """Bytes per offset in the log of each partition, at least 1.

    Returns:
        Partitions whose logs are empty, or whose leaders do not say how large they are, are missing
        (the principal needs DESCRIBE on the cluster).

    Raises:
        KafkaError: the leaders could not be asked for offsets.
    """
    sizes = yield from _log_sizes(cluster, partitions)
    if not sizes:
        return {}
    firsts = yield from list_offsets(cluster, dict.fromkeys(sizes, EARLIEST))
    ends = yield from list_offsets(cluster, dict.fromkeys(sizes, LATEST))
    return {
        each: max(1, size_bytes // (ends[each].offset - firsts[each].offset))
        for each, size_bytes in sizes.items()
        if size_bytes > 0 and ends[each].offset > firsts[each].offset
    }


def _log_sizes(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> Plan[dict[TopicPartition, int]]:
    led: dict[int, list[TopicPartition]] = {}
    for each in partitions:
        led.setdefault(cluster.leader(*each), []).append(each)
    calls = [
        Call(
            node,
            describe_log_dirs.Request(
                topics=[
                    describe_log_dirs.DescribableLogDirTopic(topic=topic, partitions=indexes)
                    for topic, indexes in by_topic(there).items()
                ]
            ),
        )
        for node, there in led.items()
        if node in cluster.brokers
    ]
    answers = yield from call_all(calls, describe_log_dirs.Response)
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for answer in answers
        if isinstance(answer, describe_log_dirs.Response)
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }
