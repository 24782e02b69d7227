"""Plans for the cluster itself: brokers, controller, log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minikafka.protocol.messages import describe_log_dirs as describe_log_dirs_api
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.plan import Call, Plan, call_all
from minikafka_client.plans.rounds import in_rounds, refresh_metadata
from minikafka_client.types import ClusterDescription, LogDirDescription, TopicPartition

_NO_FILTER = None


def describe_cluster(cluster: Cluster) -> Plan[ClusterDescription]:
    """Name the brokers and the controller."""

    def attempt(_keys: Sequence[None]) -> Plan[Mapping[None, ClusterDescription]]:
        yield from refresh_metadata()
        brokers = tuple(cluster.brokers[node] for node in sorted(cluster.brokers))
        return {None: ClusterDescription(cluster.cluster_id, cluster.controller_id, brokers)}

    described = yield from in_rounds([None], attempt)
    return described[None]


def describe_log_dirs(
    cluster: Cluster, node_ids: Iterable[int] | None = None
) -> Plan[list[LogDirDescription]]:
    """Say what lies in the log directories of brokers (None: of all).

    Raises:
        KafkaError: the only broker asked for did not answer.
        SomeFailedError: some of several brokers did not answer.
    """
    if node_ids is None:
        yield from describe_cluster(cluster)
        node_ids = sorted(cluster.brokers)

    def attempt(nodes: Sequence[int]) -> Plan[Mapping[int, list[LogDirDescription] | KafkaError]]:
        request = describe_log_dirs_api.Request(topics=_NO_FILTER)
        answers = yield from call_all(
            [Call(node, request) for node in nodes], describe_log_dirs_api.Response
        )
        return {
            node: answer if isinstance(answer, KafkaError) else _directories(node, answer)
            for node, answer in zip(nodes, answers, strict=True)
        }

    found = yield from in_rounds(node_ids, attempt)
    return [directory for node in sorted(found) for directory in found[node]]


def _directories(
    node: int, response: describe_log_dirs_api.Response
) -> list[LogDirDescription] | KafkaError:
    if response.error_code:
        return broker_error(response.error_code, f"log directories of broker {node}")
    return [_directory(node, result) for result in response.results if not result.error_code]


def _directory(node: int, result: describe_log_dirs_api.Result) -> LogDirDescription:
    sizes = {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }
    return LogDirDescription(node, result.log_dir, sizes, result.total_bytes, result.usable_bytes)
