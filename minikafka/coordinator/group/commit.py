"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

API 8 (OffsetCommit), versions 2 to 10: retention time v2 to v4 only (KIP-211), leader epoch v6+,
static members v7+, an unknown group is GROUP_ID_NOT_FOUND v9+ (KIP-848), ILLEGAL_GENERATION before.
API 9 (OffsetFetch), versions 1 to 10: one group until v7, several from v8; ``require_stable`` v7+
(KIP-447): an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT.
API 28 (TxnOffsetCommit), versions 0 to 5: offsets that count when the transaction commits (KIP-98);
member and generation v3+ (KIP-447), without them nobody is fenced here.
API 47 (OffsetDelete), version 0 (KIP-496).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponsePartition,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponsePartition,
)

from .classic_group import ClassicGroup
from .context import ShardContext
from .effects import Ask
from .pending_offsets import EndedOffsets
from .rebalance import Rebalance
from .records import CommittedOffset, OffsetEntry, OffsetKey
from .responses import (
    commit_refused,
    commit_write_error,
    refused,
    transactional_commit_refused,
    write_error,
)
from .states import GroupState

__all__ = ["Committing", "single_group_response"]

# First version in which a commit to an unknown group says so.
_GROUP_NOT_FOUND_VERSION = 9
_NO_RETENTION_TIME = -1
_TIMESTAMP_MS_MAX = 2**63 - 1
_NO_OFFSET = CommittedOffset(-1, -1, "", -1)


class Committing:
    """Handles what is asked about committed offsets."""

    def __init__(self, context: ShardContext, rebalance: Rebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    # --- OffsetCommit ----------------------------------------------------------------------

    def handle_commit(self, ask: Ask, request: OffsetCommitRequest) -> None:
        """Store the offsets of a member of the current generation, or of a simple consumer."""
        group = self._context.groups.get(request.group_id)
        error = _check_commit(group, request, ask.api_version)
        if error is not ErrorCode.NONE:
            self._context.reply(ask.token, commit_refused(request, error))
            return
        member = None if group is None else group.members.get(request.member_id)
        if group is not None and member is not None:
            self._rebalance.restart_session(group, member)
        response = commit_refused(request, ErrorCode.NONE)
        entries: list[OffsetEntry] = []
        written: list[OffsetCommitResponsePartition] = []
        for topic, answer in zip(request.topics, response.topics, strict=True):
            for partition, result in zip(topic.partitions, answer.partitions, strict=True):
                if self._is_metadata_too_large(partition.committed_metadata or ""):
                    result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                key = OffsetKey(request.group_id, topic.name, partition.partition_index)
                entries.append(OffsetEntry(key, self._to_store(request, partition)))
                written.append(result)
        if not entries:
            self._context.reply(ask.token, response)
            return

        def stored(error: ErrorCode) -> None:
            for result in written:
                result.error_code = commit_write_error(error)
            self._context.reply(ask.token, response)

        self._context.append(entries, stored)

    def handle_transactional_commit(self, ask: Ask, request: TxnOffsetCommitRequest) -> None:
        """Store offsets that count when the transaction they come in is committed."""
        group = self._context.groups.get(request.group_id)
        error = _check_transactional_commit(group, request)
        if error is not ErrorCode.NONE:
            self._context.reply(ask.token, transactional_commit_refused(request, error))
            return
        response = transactional_commit_refused(request, ErrorCode.NONE)
        entries: list[OffsetEntry] = []
        written: list[TxnOffsetCommitResponsePartition] = []
        for topic, answer in zip(request.topics, response.topics, strict=True):
            for partition, result in zip(topic.partitions, answer.partitions, strict=True):
                metadata = partition.committed_metadata or ""
                if self._is_metadata_too_large(metadata):
                    result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    self._context.now.wall_ms,
                )
                key = OffsetKey(request.group_id, topic.name, partition.partition_index)
                entries.append(OffsetEntry(key, committed))
                written.append(result)
        if not entries:
            self._context.reply(ask.token, response)
            return

        def stored(error: ErrorCode) -> None:
            for result in written:
                result.error_code = commit_write_error(error)
            self._context.reply(ask.token, response)

        self._context.append(entries, stored, (request.producer_id, request.producer_epoch))

    def settle(self, ended: EndedOffsets, *, commits: bool) -> None:
        """The offsets of a transaction that has ended count now, if it was committed."""
        committed = self._context.pending_offsets.settle(ended, commits=commits)
        for key, offset in committed.items():
            self._context.store_offset(key, offset)

    def _is_metadata_too_large(self, metadata: str) -> bool:
        """Count as Kafka does: a character beyond the basic plane counts twice."""
        units = len(metadata) + sum(character > "\uffff" for character in metadata)
        return units > self._context.config.offset_metadata_size_bytes_max

    def _to_store(
        self, request: OffsetCommitRequest, partition: OffsetCommitRequestPartition
    ) -> CommittedOffset:
        now_ms = self._context.now.wall_ms
        metadata = partition.committed_metadata or ""
        if request.retention_time_ms == _NO_RETENTION_TIME:
            epoch = partition.committed_leader_epoch
            return CommittedOffset(partition.committed_offset, epoch, metadata, now_ms)
        expire_ms = min(max(now_ms + request.retention_time_ms, 0), _TIMESTAMP_MS_MAX)
        # The one record version with room for this time has none for the leader epoch; nor do the
        # requests that can ask for it.
        return CommittedOffset(partition.committed_offset, -1, metadata, now_ms, expire_ms)

    # --- OffsetFetch -----------------------------------------------------------------------

    def fetch(
        self,
        group_id: str,
        topics: Mapping[str, Sequence[int]] | None,
        *,
        require_stable: bool = False,
    ) -> OffsetFetchResponseGroup:
        """The offsets of one group that are below the high watermark."""
        error = self._context.phase.value
        found: Mapping[str, Mapping[int, CommittedOffset]]
        if error is not ErrorCode.NONE:
            found = {}
        elif topics is None:
            found = self._context.offsets.read_all(group_id)
        else:
            read = self._context.offsets.read
            found = {
                topic: {p: read(OffsetKey(group_id, topic, p)) or _NO_OFFSET for p in partitions}
                for topic, partitions in topics.items()
            }
        unstable: set[OffsetKey] = set()
        if require_stable:
            unstable.update(self._context.pending_offsets.keys_of(group_id))
        if topics is None and unstable:  # those that have no offset yet are asked for, too
            complete = {topic: dict(partitions) for topic, partitions in found.items()}
            for key in unstable:
                complete.setdefault(key.topic, {}).setdefault(key.partition, _NO_OFFSET)
            found = complete
        return OffsetFetchResponseGroup(
            group_id=group_id,
            error_code=error,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic,
                    partitions=[
                        _unstable(partition)
                        if OffsetKey(group_id, topic, partition) in unstable
                        else _stable(partition, committed)
                        for partition, committed in partitions.items()
                    ],
                )
                for topic, partitions in found.items()
            ],
        )

    # --- OffsetDelete ----------------------------------------------------------------------

    def handle_delete(self, ask: Ask, request: OffsetDeleteRequest) -> None:
        """Delete offsets of partitions that no member of the group reads."""
        group = self._context.groups.get(request.group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_in(GroupState.EMPTY) and not group.uses_consumer_protocol():
            error = ErrorCode.NON_EMPTY_GROUP  # nobody can tell what its members read
        if group is None or error is not ErrorCode.NONE:
            self._context.reply(ask.token, refused(request, ask.api_version, error))
            return
        tombstones: list[OffsetEntry] = []
        topics: list[OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            is_read = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            results: list[OffsetDeleteResponsePartition] = []
            for partition in topic.partitions:
                index = partition.partition_index
                key = OffsetKey(request.group_id, topic.name, index)
                results.append(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                )
                if not is_read and self._context.offsets.has_stored(key):
                    tombstones.append(OffsetEntry(key, None))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
        response = OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
        if not tombstones:
            self._context.reply(ask.token, response)
            return

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._context.reply(ask.token, response)
            else:
                code = write_error(error)
                self._context.reply(ask.token, refused(request, ask.api_version, code))

        self._context.append_in_pieces(tombstones, stored)


def _stable(partition: int, committed: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )


def single_group_response(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """What `GroupShard.offset_fetch` found, as OffsetFetch v1 to v7 wants it."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _check_commit(
    group: ClassicGroup | None, request: OffsetCommitRequest, api_version: int
) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        is_told = api_version >= _GROUP_NOT_FOUND_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.is_in(GroupState.EMPTY):
        return ErrorCode.NONE  # a simple consumer, or an administrator who resets offsets
    error = group.check_generation(request.member_id, request.group_instance_id, generation)
    if error is ErrorCode.NONE and group.is_in(GroupState.COMPLETING_REBALANCE):
        # The partitions may belong to somebody else by now; the member must fetch its new ones.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def _check_transactional_commit(
    group: ClassicGroup | None, request: TxnOffsetCommitRequest
) -> ErrorCode:
    names_member = (
        request.generation_id >= 0
        or request.member_id != ""
        or request.group_instance_id is not None
    )
    if not names_member:
        return ErrorCode.NONE  # a client from before KIP-447: only its transactional id fences it
    if group is None:
        is_simple = request.generation_id < 0
        return ErrorCode.NONE if is_simple else ErrorCode.ILLEGAL_GENERATION
    # Other than a plain commit it may come during a rebalance: it ends what was read before.
    return group.check_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )
