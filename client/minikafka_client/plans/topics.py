"""Plans for topics: list, describe, create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import create_partitions as create_partitions_api
from minikafka.protocol.messages import create_topics as create_topics_api
from minikafka.protocol.messages import delete_topics as delete_topics_api
from minikafka_client.core.cluster import Cluster, TopicMetadata
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.plans.rounds import at_controller, in_rounds, outcome_of, refresh_metadata
from minikafka_client.types import CreatedTopic, NewTopic, PartitionDescription, TopicDescription

BROKER_SLACK_MS = 5_000
"""How much longer than the broker may take the client waits for its answer."""


def list_topics(cluster: Cluster, *, include_internal: bool = False) -> Plan[list[str]]:
    """Name all topics, sorted; internal ones (``__consumer_offsets``) only when asked for."""
    described = yield from describe_topics(cluster)
    return sorted(
        name for name, topic in described.items() if include_internal or not topic.is_internal
    )


def describe_topics(
    cluster: Cluster, names: Iterable[str] | None = None
) -> Plan[dict[str, TopicDescription]]:
    """Describe topics (None: all) without creating them.

    Raises:
        UnknownTopicError: the only topic asked for does not exist.
        SomeFailedError: some of several topics cannot be described.
    """
    everything = [None]
    if names is None:
        found = yield from in_rounds(everything, lambda _keys: _describe_all(cluster))
        return found[None]

    def attempt(wanted: Sequence[str]) -> Plan[Mapping[str, TopicDescription | KafkaError]]:
        yield from refresh_metadata(wanted)
        return {
            name: _description(cluster.topics[name]) for name in wanted if name in cluster.topics
        }

    return (yield from in_rounds(names, attempt))


def _describe_all(cluster: Cluster) -> Plan[Mapping[None, dict[str, TopicDescription]]]:
    yield from refresh_metadata(None)
    described = {name: _description(topic) for name, topic in sorted(cluster.topics.items())}
    # A topic that is being created or deleted right now is not worth an error.
    return {None: {n: topic for n, topic in described.items() if not isinstance(topic, KafkaError)}}


def _description(topic: TopicMetadata) -> TopicDescription | KafkaError:
    if topic.error_code:
        return broker_error(topic.error_code, f"topic {topic.name!r}")
    partitions = tuple(
        PartitionDescription(
            index,
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            partition.in_sync_replicas,
            partition.offline_replicas,
        )
        for index, partition in topic.partitions.items()
    )
    return TopicDescription(topic.name, topic.topic_id, topic.is_internal, partitions)


def create_topics(
    cluster: Cluster,
    topics: Iterable[NewTopic],
    *,
    validate_only: bool = False,
    timeout_ms: int = 30_000,
) -> Plan[dict[str, CreatedTopic]]:
    """Create topics; each succeeds or fails independently.

    Raises:
        BrokerError: the only topic asked for was refused (TOPIC_ALREADY_EXISTS, ...).
        SomeFailedError: some of several topics were refused.
    """
    wanted = {topic.name: topic for topic in topics}

    def make_call(node: int, names: Sequence[str]) -> Call:
        request = create_topics_api.Request(
            topics=[_creatable(wanted[name]) for name in names],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        return Call(node, request, timeout_ms=timeout_ms + BROKER_SLACK_MS)

    def read(response: create_topics_api.Response) -> Mapping[str, CreatedTopic | KafkaError]:
        return {
            topic.name: outcome_of(
                CreatedTopic(
                    topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor
                ),
                topic.error_code,
                f"topic {topic.name!r}",
                topic.error_message,
            )
            for topic in response.topics
        }

    return in_rounds(
        wanted,
        lambda names: at_controller(cluster, names, make_call, create_topics_api.Response, read),
    )


def _creatable(topic: NewTopic) -> create_topics_api.CreatableTopic:
    assigned = topic.replica_assignments
    return create_topics_api.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assigned else topic.num_partitions,
        replication_factor=-1 if assigned else topic.replication_factor,
        assignments=[
            create_topics_api.CreatableReplicaAssignment(
                partition_index=index, broker_ids=list(nodes)
            )
            for index, nodes in assigned.items()
        ],
        configs=[
            create_topics_api.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def delete_topics(
    cluster: Cluster, names: Iterable[str], *, timeout_ms: int = 30_000
) -> Plan[None]:
    """Delete topics with everything in them.

    Raises:
        UnknownTopicError: the only topic asked for does not exist.
        SomeFailedError: some of several topics were not deleted.
    """

    def make_call(node: int, wanted: Sequence[str]) -> Call:
        request = delete_topics_api.Request(
            topics=[delete_topics_api.TopicState(name=name, topic_id=ZERO_UUID) for name in wanted],
            topic_names=list(wanted),
            timeout_ms=timeout_ms,
        )
        return Call(node, request, timeout_ms=timeout_ms + BROKER_SLACK_MS)

    def read(response: delete_topics_api.Response) -> Mapping[str, KafkaError | None]:
        return {
            topic.name: outcome_of(
                None, topic.error_code, f"topic {topic.name!r}", topic.error_message
            )
            for topic in response.responses
            if topic.name is not None
        }

    deleted = yield from in_rounds(
        names,
        lambda wanted: at_controller(cluster, wanted, make_call, delete_topics_api.Response, read),
    )
    cluster.forget(deleted)


def create_partitions(
    cluster: Cluster,
    totals: Mapping[str, int],
    *,
    validate_only: bool = False,
    timeout_ms: int = 30_000,
) -> Plan[None]:
    """Raise each topic's partition count to the given total.

    Raises:
        BrokerError: the only topic asked for was refused (INVALID_PARTITIONS, ...).
        SomeFailedError: some of several topics were refused.
    """

    def make_call(node: int, names: Sequence[str]) -> Call:
        request = create_partitions_api.Request(
            topics=[
                create_partitions_api.Topic(name=name, count=totals[name], assignments=None)
                for name in names
            ],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        return Call(node, request, timeout_ms=timeout_ms + BROKER_SLACK_MS)

    def read(response: create_partitions_api.Response) -> Mapping[str, KafkaError | None]:
        return {
            topic.name: outcome_of(
                None, topic.error_code, f"topic {topic.name!r}", topic.error_message
            )
            for topic in response.results
        }

    yield from in_rounds(
        totals,
        lambda names: at_controller(
            cluster, names, make_call, create_partitions_api.Response, read
        ),
    )
