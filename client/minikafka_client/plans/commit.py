"""The plan with which a consumer commits its offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_commit import OffsetCommitResponse
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import CommitFailedError, FencedError, KafkaError
from minikafka_client.plans.ask import Plan
from minikafka_client.plans.coordinators import find_coordinators
from minikafka_client.plans.group_offsets import (
    offset_commit_request,
    read_offset_commit,
    request_call,
)
from minikafka_client.plans.rounds import in_rounds
from minikafka_client.types import OffsetAndMetadata, TopicPartition

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,  # a coordinator that cannot write its log any more says so
    }
)
_MEMBERSHIP: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class Committer(NamedTuple):
    """Who commits: a member in its generation, or a group without members ("" and -1)."""

    group_id: str
    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None
    coordinator: int | None = None


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
            response = yield request_call(request)(node)
        except KafkaError:
            node = None
            raise
        assert isinstance(response, OffsetCommitResponse)
        outcome = read_offset_commit(response)
        for error in outcome.values():
            if error is not None:
                _raise_if_whole(error, committer)
                if error.code in _MOVED:
                    node = None
        return outcome

    yield from in_rounds(offsets, attempt)


def _raise_if_whole(error: KafkaError, committer: Committer) -> None:
    """Raise what is true of the member, not of a partition; retrying cannot help."""
    if error.code in _MEMBERSHIP:
        failed = CommitFailedError(
            f"group {committer.group_id!r} does not take the commit of member "
            f"{committer.member_id!r} of generation {committer.generation_id}: {error}; what it "
            f"read since the last commit will be read again by whoever is assigned it"
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
