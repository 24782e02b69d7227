"""Plans for the committed offsets of a group: list, alter (reset), delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from minikafka.protocol.schema import Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.plans.ask import Call, Plan
from minikafka_client.plans.coordinators import find_coordinators
from minikafka_client.plans.rounds import by_topic, in_rounds, outcome_of
from minikafka_client.types import OffsetAndMetadata, TopicPartition

NO_OFFSET = -1
NAMED_TOPICS_VERSION = 9
"""The last version of OffsetCommit and OffsetFetch that names topics instead of their ids."""
_ALL_PARTITIONS_VERSION = 2
_REQUIRE_STABLE_VERSION = 7

_Response = TypeVar("_Response", bound=Response)


def offset_fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> OffsetFetchRequest:
    """The request in the shapes of all versions: one group (to 7) and a list of groups (from 8)."""
    topics = None if partitions is None else by_topic(partitions)
    old = new = None
    if topics is not None:
        old = [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
        new = [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics.items()]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=new)],
        group_id=group_id,
        topics=old,
        require_stable=require_stable,
    )


def read_offset_fetch(
    group_id: str, response: OffsetFetchResponse
) -> Mapping[TopicPartition, OffsetAndMetadata | KafkaError | None] | KafkaError:
    """Read any version's answer: None where nothing is committed; or what the group itself got."""
    entry = response.groups[0] if response.groups else response
    if entry.error_code:
        return broker_error(entry.error_code, f"offsets of group {group_id!r}")
    outcome: dict[TopicPartition, OffsetAndMetadata | KafkaError | None] = {}
    for topic in entry.topics:
        for partition in topic.partitions:
            offset = partition.committed_offset
            committed = OffsetAndMetadata(
                offset, partition.metadata or "", partition.committed_leader_epoch
            )
            outcome[TopicPartition(topic.name, partition.partition_index)] = outcome_of(
                committed if offset != NO_OFFSET else None,
                partition.error_code,
                f"committed offset of partition {partition.partition_index} of {topic.name!r}",
            )
    return outcome


def offset_commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    *,
    generation_id: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> OffsetCommitRequest:
    """The request to commit; without generation and member it is for a group without members."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                _commit_of(index, offsets[TopicPartition(topic, index)]) for index in indexes
            ],
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )


def _commit_of(index: int, commit: OffsetAndMetadata | int) -> OffsetCommitRequestPartition:
    if isinstance(commit, int):
        commit = OffsetAndMetadata(commit)
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def read_offset_commit(
    response: OffsetCommitResponse,
) -> dict[TopicPartition, KafkaError | None]:
    """Which partitions' commits failed, and why."""
    return {
        TopicPartition(topic.name, partition.partition_index): outcome_of(
            None,
            partition.error_code,
            f"commit of partition {partition.partition_index} of topic {topic.name!r}",
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def list_group_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> Plan[dict[TopicPartition, OffsetAndMetadata]]:
    """Read a group's committed offsets (None: of all partitions); what has none is left out.

    Raises:
        BrokerError: the group, or the only partition asked for, was refused.
        SomeFailedError: some of several partitions were refused.
    """
    wanted = None if partitions is None else list(partitions)
    version_min = _ALL_PARTITIONS_VERSION if wanted is None else 1
    version_min = _REQUIRE_STABLE_VERSION if require_stable else version_min

    if wanted is None:

        def whole(_keys: Sequence[str]) -> Plan[Mapping[str, _Committed | KafkaError]]:
            request = offset_fetch_request(group_id, None, require_stable=require_stable)
            response = yield from _at_coordinator(
                cluster, group_id, request_call(request, version_min), OffsetFetchResponse
            )
            read = read_offset_fetch(group_id, response)
            if isinstance(read, KafkaError):
                return {group_id: read}
            failed = [result for result in read.values() if isinstance(result, KafkaError)]
            return {group_id: failed[0] if failed else _only_committed(read)}

        found = yield from in_rounds([group_id], whole)
        return found[group_id]

    def attempt(
        asked: Sequence[TopicPartition],
    ) -> Plan[Mapping[TopicPartition, OffsetAndMetadata | KafkaError | None]]:
        request = offset_fetch_request(group_id, asked, require_stable=require_stable)
        response = yield from _at_coordinator(
            cluster, group_id, request_call(request, version_min), OffsetFetchResponse
        )
        read = read_offset_fetch(group_id, response)
        return dict.fromkeys(asked, read) if isinstance(read, KafkaError) else read

    committed = yield from in_rounds(wanted, attempt)
    return _only_committed(committed)


_Committed = dict[TopicPartition, OffsetAndMetadata]


def _only_committed(
    found: Mapping[TopicPartition, OffsetAndMetadata | KafkaError | None],
) -> _Committed:
    return {
        partition: offset
        for partition, offset in found.items()
        if isinstance(offset, OffsetAndMetadata)
    }


def alter_group_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> Plan[None]:
    """Set the committed offsets of a group without members (a reset).

    Raises:
        BrokerError: the group has members (UNKNOWN_MEMBER_ID), or the only partition was refused.
        SomeFailedError: some of several partitions were refused.
    """

    def attempt(
        asked: Sequence[TopicPartition],
    ) -> Plan[Mapping[TopicPartition, KafkaError | None]]:
        request = offset_commit_request(group_id, {key: offsets[key] for key in asked})
        response = yield from _at_coordinator(
            cluster, group_id, request_call(request), OffsetCommitResponse
        )
        return read_offset_commit(response)

    yield from in_rounds(offsets, attempt)


def delete_group_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> Plan[None]:
    """Forget the committed offsets of partitions that no member subscribes to (KIP-496).

    Raises:
        BrokerError: the group, or the only partition asked for, was refused.
        SomeFailedError: some of several partitions were refused.
    """

    def attempt(
        asked: Sequence[TopicPartition],
    ) -> Plan[Mapping[TopicPartition, KafkaError | None]]:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in by_topic(asked).items()
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        response = yield from _at_coordinator(
            cluster, group_id, lambda node: Call(node, request), OffsetDeleteResponse
        )
        if response.error_code:
            error = broker_error(response.error_code, f"group {group_id!r}")
            return dict.fromkeys(asked, error)
        return {
            TopicPartition(topic.name, partition.partition_index): outcome_of(
                None,
                partition.error_code,
                f"offset of partition {partition.partition_index} of topic {topic.name!r}",
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    yield from in_rounds(partitions, attempt)


def request_call(
    request: OffsetCommitRequest | OffsetFetchRequest, version_min: int = 0
) -> Callable[[int], Call]:
    """Make the call of such a request, which names topics, once its node is known."""
    return lambda node: Call(node, request, version_min, NAMED_TOPICS_VERSION)


def _at_coordinator(
    cluster: Cluster,
    group_id: str,
    make_call: Callable[[int], Call],
    response_type: type[_Response],
) -> Plan[_Response]:
    node = (yield from find_coordinators(cluster, [group_id]))[group_id]
    if isinstance(node, KafkaError):
        raise node
    response = yield make_call(node)
    assert isinstance(response, response_type)
    return response
