"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

API 8 (OffsetCommit), versions 2 to 10: retention time v2 to v4 only (KIP-211), leader epoch v6+,
static members v7+, an unknown group is GROUP_ID_NOT_FOUND v9+ (KIP-848), ILLEGAL_GENERATION before.
API 9 (OffsetFetch), versions 1 to 10: one group until v7, several from v8; ``require_stable`` v7+
(KIP-447): an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT.
API 28 (TxnOffsetCommit), versions 0 to 5: offsets that take effect when the transaction commits
(KIP-98); member and generation are v3+ (KIP-447), without them this request fences no client.
API 47 (OffsetDelete), version 0 (KIP-496).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    offset_commit,
    offset_delete,
    offset_fetch,
    txn_offset_commit,
)

from .classic.requests import ClassicRequests
from .context import ShardContext
from .effects import Ask
from .group import Committer, Group
from .pending_offsets import EndedOffsets
from .records import CommittedOffset, OffsetEntry, OffsetKey
from .responses import commit_refused, refused, transactional_commit_refused
from .write_errors import commit_write_error, write_error

# First version with GROUP_ID_NOT_FOUND for a commit to an unknown group.
_GROUP_NOT_FOUND_VERSION = 9
_NO_RETENTION_TIME = -1
_TIMESTAMP_MS_MAX = 2**63 - 1
_NO_OFFSET = CommittedOffset(-1, -1, "", -1)


class OffsetRequests:
    def __init__(self, context: ShardContext, classic: ClassicRequests) -> None:
        self._context = context
        self._classic = classic

    # --- OffsetCommit ----------------------------------------------------------------------

    def handle_commit(self, ask: Ask, request: offset_commit.Request) -> None:
        group = self._context.groups.get(request.group_id)
        error = _check_commit(group, request, ask.api_version)
        if error is not ErrorCode.NONE:
            self._context.reply(ask.token, commit_refused(request, error))
            return
        if group is not None:
            self._classic.is_active(group, request.member_id)
        response = commit_refused(request, ErrorCode.NONE)
        entries: list[OffsetEntry] = []
        written: list[offset_commit.ResponsePartition] = []
        for topic, answer in zip(request.topics, response.topics, strict=True):
            for partition, result in zip(topic.partitions, answer.partitions, strict=True):
                if self._is_metadata_too_large(partition.committed_metadata or ""):
                    result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                key = OffsetKey(request.group_id, topic.name, partition.partition_index)
                committed = self._to_store(request, partition)
                entries.append(OffsetEntry(key, committed, topic.topic_id))
                written.append(result)
        if not entries:
            self._context.reply(ask.token, response)
            return

        def stored(error: ErrorCode) -> None:
            for result in written:
                result.error_code = commit_write_error(error)
            self._context.reply(ask.token, response)

        self._context.append(entries, stored)

    def handle_transactional_commit(self, ask: Ask, request: txn_offset_commit.Request) -> None:
        group = self._context.groups.get(request.group_id)
        error = _check_transactional_commit(group, request, ask.api_version)
        if error is not ErrorCode.NONE:
            self._context.reply(ask.token, transactional_commit_refused(request, error))
            return
        response = transactional_commit_refused(request, ErrorCode.NONE)
        entries: list[OffsetEntry] = []
        written: list[txn_offset_commit.ResponsePartition] = []
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
        """A transaction has ended: its offsets take effect if it was committed."""
        committed = self._context.pending_offsets.settle(ended, commits=commits)
        for key, offset in committed.items():
            self._context.store_offset(key, offset)

    def _is_metadata_too_large(self, metadata: str) -> bool:
        """Kafka counts UTF-16 code units: a character beyond the basic plane counts twice."""
        units = len(metadata) + sum(character > "\uffff" for character in metadata)
        return units > self._context.config.offset_metadata_size_bytes_max

    def _to_store(
        self, request: offset_commit.Request, partition: offset_commit.RequestPartition
    ) -> CommittedOffset:
        now_ms = self._context.now.wall_ms
        metadata = partition.committed_metadata or ""
        if request.retention_time_ms == _NO_RETENTION_TIME:
            epoch = partition.committed_leader_epoch
            return CommittedOffset(partition.committed_offset, epoch, metadata, now_ms)
        expire_ms = min(max(now_ms + request.retention_time_ms, 0), _TIMESTAMP_MS_MAX)
        # The only record version with an expiry time has no leader epoch, and neither do the
        # requests that can set one.
        return CommittedOffset(partition.committed_offset, -1, metadata, now_ms, expire_ms)

    # --- OffsetFetch -----------------------------------------------------------------------

    def fetch(
        self,
        group_id: str,
        topics: Mapping[str, Sequence[int]] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> offset_fetch.ResponseGroup:
        error = self._context.phase.value
        group = self._context.groups.get(group_id)
        if error is ErrorCode.NONE and group is not None:
            error = group.check_fetch(member_id, member_epoch)
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
        if topics is None and unstable:  # includes partitions that have no offset yet
            complete = {topic: dict(partitions) for topic, partitions in found.items()}
            for key in unstable:
                complete.setdefault(key.topic, {}).setdefault(key.partition, _NO_OFFSET)
            found = complete
        return offset_fetch.ResponseGroup(
            group_id=group_id,
            error_code=error,
            topics=[
                offset_fetch.ResponseGroupTopic(
                    name=topic,
                    partitions=[
                        _fetched(partition, _NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                        if OffsetKey(group_id, topic, partition) in unstable
                        else _fetched(partition, committed)
                        for partition, committed in partitions.items()
                    ],
                )
                for topic, partitions in found.items()
            ],
        )

    # --- OffsetDelete ----------------------------------------------------------------------

    def handle_delete(self, ask: Ask, request: offset_delete.Request) -> None:
        group = self._context.groups.get(request.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        if group is None or error is not ErrorCode.NONE:
            self._context.reply(ask.token, refused(request, ask.api_version, error))
            return
        tombstones: list[OffsetEntry] = []
        topics: list[offset_delete.ResponseTopic] = []
        for topic in request.topics:
            is_read = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            results: list[offset_delete.ResponsePartition] = []
            for partition in topic.partitions:
                index = partition.partition_index
                key = OffsetKey(request.group_id, topic.name, index)
                results.append(
                    offset_delete.ResponsePartition(partition_index=index, error_code=error)
                )
                if not is_read and self._context.offsets.has_stored(key):
                    tombstones.append(OffsetEntry(key, None))
            topics.append(offset_delete.ResponseTopic(name=topic.name, partitions=results))
        response = offset_delete.Response(error_code=ErrorCode.NONE, topics=topics)
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


def _fetched(
    partition: int, committed: CommittedOffset, error: ErrorCode = ErrorCode.NONE
) -> offset_fetch.GroupPartition:
    return offset_fetch.GroupPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


def single_group_response(group: offset_fetch.ResponseGroup) -> offset_fetch.Response:
    """The result of `GroupShard.offset_fetch` in the form of OffsetFetch v1 to v7."""
    return offset_fetch.Response(
        error_code=group.error_code,
        topics=[
            offset_fetch.ResponseTopic(
                name=topic.name,
                partitions=[
                    offset_fetch.Partition(
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
    group: Group | None, request: offset_commit.Request, api_version: int
) -> ErrorCode:
    epoch = request.generation_id_or_member_epoch
    if group is None:
        if epoch < 0:
            return ErrorCode.NONE
        has_error = api_version >= _GROUP_NOT_FOUND_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if has_error else ErrorCode.ILLEGAL_GENERATION
    by = Committer(request.member_id, request.group_instance_id, epoch)
    return group.check_commit(by, api_version, partial(_partitions, request))


def _check_transactional_commit(
    group: Group | None, request: txn_offset_commit.Request, api_version: int
) -> ErrorCode:
    by = Committer(request.member_id, request.group_instance_id, request.generation_id)
    if by.epoch < 0 and not by.member_id and by.group_instance_id is None:
        return ErrorCode.NONE  # before KIP-447 only the transactional id fences a client
    if group is None:
        return ErrorCode.NONE if by.epoch < 0 else ErrorCode.ILLEGAL_GENERATION
    return group.check_transactional_commit(by, api_version, partial(_partitions, request))


def _partitions(
    request: offset_commit.Request | txn_offset_commit.Request,
) -> Iterator[tuple[str, int]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.name, partition.partition_index
