"""Plans for the committed offsets of a group: list, alter (reset), delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_commit, offset_delete, offset_fetch
from minikafka.protocol.schema import Response
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import CommitFailedError, FencedError, KafkaError, broker_error
from minikafka_client.plans.coordinators import find_coordinators
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.plans.rounds import by_topic, in_rounds, outcome_of
from minikafka_client.types import OffsetAndMetadata, TopicPartition

NO_OFFSET = -1
NAMED_TOPICS_VERSION = 9
"""The last version of OffsetCommit and OffsetFetch that names topics instead of their ids."""
_ALL_PARTITIONS_VERSION = 2
_REQUIRE_STABLE_VERSION = 7
_MEMBER_EPOCH_VERSION = 9

_Response = TypeVar("_Response", bound=Response)


class MemberEpoch(NamedTuple):
    """Who asks for offsets; a coordinator refuses those that are no longer members (KIP-848)."""

    member_id: str
    member_epoch: int


def offset_fetch_request(
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    member: MemberEpoch | None = None,
) -> offset_fetch.Request:
    """The request in the shapes of all versions: one group (to 7) and a list of groups (from 8)."""
    member_id, member_epoch = member or (None, -1)
    topics = None if partitions is None else by_topic(partitions)
    old = new = None
    if topics is not None:
        old = [offset_fetch.RequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
        new = [
            offset_fetch.RequestGroupTopic(name=t, partition_indexes=p) for t, p in topics.items()
        ]
    return offset_fetch.Request(
        groups=[
            offset_fetch.RequestGroup(
                group_id=group_id, member_id=member_id, member_epoch=member_epoch, topics=new
            )
        ],
        group_id=group_id,
        topics=old,
        require_stable=require_stable,
    )


def read_offset_fetch(
    group_id: str, response: offset_fetch.Response
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
) -> offset_commit.Request:
    """The request to commit; without generation and member it is for a group without members."""
    topics = [
        offset_commit.RequestTopic(
            name=topic,
            partitions=[
                _commit_of(index, offsets[TopicPartition(topic, index)]) for index in indexes
            ],
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    return offset_commit.Request(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )


def _commit_of(index: int, commit: OffsetAndMetadata | int) -> offset_commit.RequestPartition:
    if isinstance(commit, int):
        commit = OffsetAndMetadata(commit)
    return offset_commit.RequestPartition(
        partition_index=index,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def read_offset_commit(response: offset_commit.Response) -> dict[TopicPartition, KafkaError | None]:
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
    """Read a group's committed offsets (None: of all partitions that have one).

    Raises:
        BrokerError: the group, or the only partition asked for, was refused.
        SomeFailedError: some of several partitions were refused.
    """
    wanted = None if partitions is None else list(partitions)
    version_min = _REQUIRE_STABLE_VERSION if require_stable else _ALL_PARTITIONS_VERSION

    if wanted is None:

        def whole(_keys: Sequence[str]) -> Plan[Mapping[str, _Committed | KafkaError]]:
            request = offset_fetch_request(group_id, None, require_stable=require_stable)
            response = yield from _at_coordinator(
                cluster, group_id, request_call(request, version_min), offset_fetch.Response
            )
            read = read_offset_fetch(group_id, response)
            if isinstance(read, KafkaError):
                return {group_id: read}
            failed = [result for result in read.values() if isinstance(result, KafkaError)]
            return {group_id: failed[0] if failed else _only_committed(read)}

        found = yield from in_rounds([group_id], whole)
        return found[group_id]

    return (
        yield from member_offsets(
            cluster, group_id, wanted, member=None, require_stable=require_stable
        )
    )


def member_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition],
    *,
    member: MemberEpoch | None,
    require_stable: bool,
) -> Plan[dict[TopicPartition, OffsetAndMetadata]]:
    """The committed offsets of partitions, for a member (None: for anybody).

    Raises:
        BrokerError: the group, the member, or the only partition asked for, was refused.
        SomeFailedError: some of several partitions were refused.
    """
    version_min = _REQUIRE_STABLE_VERSION if require_stable else 1
    version_min = version_min if member is None else _MEMBER_EPOCH_VERSION

    def attempt(
        asked: Sequence[TopicPartition],
    ) -> Plan[Mapping[TopicPartition, OffsetAndMetadata | KafkaError | None]]:
        request = offset_fetch_request(
            group_id, asked, require_stable=require_stable, member=member
        )
        response = yield from _at_coordinator(
            cluster, group_id, request_call(request, version_min), offset_fetch.Response
        )
        read = read_offset_fetch(group_id, response)
        return dict.fromkeys(asked, read) if isinstance(read, KafkaError) else read

    committed = yield from in_rounds(partitions, attempt)
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
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
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
            cluster, group_id, request_call(request), offset_commit.Response
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
            offset_delete.RequestTopic(
                name=topic,
                partitions=[offset_delete.RequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in by_topic(asked).items()
        ]
        request = offset_delete.Request(group_id=group_id, topics=topics)
        response = yield from _at_coordinator(
            cluster, group_id, lambda node: Call(node, request), offset_delete.Response
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
    request: offset_commit.Request | offset_fetch.Request, version_min: int = 0
) -> Callable[[int], Call]:
    """The request names topics, so the newest versions (with ids) are excluded."""
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


_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,  # of a coordinator that cannot write its log
    }
)
_MEMBERSHIP: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


_EPOCHS: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH})


class Committer(NamedTuple):
    """A member in its generation, or a group without members ("" and -1).

    ``uses_member_epochs``: the generation is a member epoch, which older versions do not know.
    """

    group_id: str
    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None
    coordinator: int | None = None
    uses_member_epochs: bool = False


def commit_offsets(
    cluster: Cluster,
    committer: Committer,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> Plan[None]:
    """Commit; asks for the coordinator when it is not known or has moved.

    Raises:
        CommitFailedError: the group has moved on; ``code`` says how.
        FencedError: another member has this one's ``group_instance_id``.
        KafkaError: the only partition, or the whole commit, was refused.
        SomeFailedError: some of several partitions were refused.
    """
    node = committer.coordinator

    def attempt(
        asked: Sequence[TopicPartition],
    ) -> Plan[Mapping[TopicPartition, KafkaError | None]]:
        nonlocal node
        if node is None:
            found = (yield from find_coordinators(cluster, [committer.group_id]))[
                committer.group_id
            ]
            if isinstance(found, KafkaError):
                raise found
            node = found
        request = offset_commit_request(
            committer.group_id,
            {partition: offsets[partition] for partition in asked},
            generation_id=committer.generation_id,
            member_id=committer.member_id,
            group_instance_id=committer.group_instance_id,
        )
        try:
            version_min = _MEMBER_EPOCH_VERSION if committer.uses_member_epochs else 0
            response = yield request_call(request, version_min)(node)
        except KafkaError:
            node = None
            raise
        assert isinstance(response, offset_commit.Response)
        outcome = read_offset_commit(response)
        for error in outcome.values():
            if error is not None:
                _raise_if_whole(error, committer)
                if error.code in _MOVED:
                    node = None
        return outcome

    yield from in_rounds(offsets, attempt)


def _raise_if_whole(error: KafkaError, committer: Committer) -> None:
    """Raise an error that concerns the member, not a partition; retrying cannot help."""
    is_about_epochs = committer.uses_member_epochs and error.code in _EPOCHS
    if error.code in _MEMBERSHIP or is_about_epochs:
        failed = CommitFailedError(
            f"group {committer.group_id!r} does not take the commit of member "
            f"{committer.member_id!r} of generation {committer.generation_id}: {error}; what it "
            f"read since the last commit will be read again by their next owner"
        )
        failed.code = error.code
        raise failed from error
    if error.code is ErrorCode.FENCED_INSTANCE_ID:
        fenced = FencedError(
            f"another member of group {committer.group_id!r} has the group_instance_id "
            f"{committer.group_instance_id!r}; stop one of them"
        )
        fenced.code = error.code
        raise fenced from error
