"""One shard of the group coordinator: the groups of one ``__consumer_offsets`` partition.

How the shell uses it::

    shard = GroupShard(config, new_id=lambda: str(uuid4()))
    for key, value in records_of_the_partition:   # becoming leader: load
        shard.replay(key, value)
    carry_out(shard.loaded(now))
    ...
    carry_out(shard.handle(Ask(...), now))        # a request came
    carry_out(shard.expire(now))                  # shard.deadline() has come
    carry_out(shard.resigned())                   # another broker leads the partition now

``carry_out`` goes through the effects in order. `Reply`: send. `Append`: write the batch, then
at once ``shard.appended(write_id)`` or ``carry_out(shard.append_failed(write_id, error, now))``;
and ``carry_out(shard.committed(write_id, now))`` when the high watermark has passed the batch (on
a single broker immediately). Transaction markers are appended to the partition by others; for each
``ended = shard.marker_appended(producer_id)`` at once, and ``shard.marker_committed(ended, ...)``
when the high watermark has passed it. All effects of one call are carried out before the next
`handle` or `expire`: a decision must see what the one before it stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import assert_never

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_groups import DescribedGroup
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.messages.list_groups import ListedGroup
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.protocol.messages.offset_delete import OffsetDeleteRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from minikafka.protocol.messages.sync_group import SyncGroupRequest
from minikafka.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from minikafka.protocol.schema import MalformedMessageError

from .commit import Committing
from .config import GroupConfig
from .context import Phase, ShardContext, Timer, TimerKind
from .describe import describe_group, list_groups
from .effects import Ask, Effect, Now
from .join import Joining
from .leave import Leaving
from .pending_offsets import EndedOffsets
from .rebalance import Rebalance
from .records import UnknownKind, decode_entry
from .responses import heartbeat_answer, refused
from .retire import Retiring
from .sync import Syncing

__all__ = ["GroupShard"]

_log = logging.getLogger(__name__)

# Requests that mean nothing without a group; offsets may be stored under an empty name.
_NEEDS_GROUP_ID = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)


class GroupShard:
    """Classic consumer groups and committed offsets of one partition.

    Args:
        config: the settings.
        new_id: gives a fresh uuid-like text; member ids are ``<client id>-<new id>``, those of
            static members ``<instance id>-<new id>``.
    """

    def __init__(self, config: GroupConfig, *, new_id: Callable[[], str]) -> None:
        self._context = ShardContext(config, new_id)
        self._rebalance = Rebalance(self._context)
        self._joining = Joining(self._context, self._rebalance)
        self._syncing = Syncing(self._context, self._rebalance)
        self._leaving = Leaving(self._context, self._rebalance)
        self._committing = Committing(self._context, self._rebalance)
        self._retiring = Retiring(self._context)

    @property
    def error(self) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS before `loaded`, NOT_COORDINATOR after `resigned`."""
        return self._context.phase.value

    # --- requests --------------------------------------------------------------------------

    def handle(self, ask: Ask, now: Now) -> list[Effect]:
        """Decide about one request; its `Reply` is in this list or in a later one.

        Raises:
            RuntimeError: an earlier `Append` was not carried out.
        """
        request = ask.request
        error = self.error
        if error is not ErrorCode.NONE:
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and isinstance(
                request, HeartbeatRequest
            ):
                # Nobody's session runs yet; an error would only make members ask around.
                self._context.reply(ask.token, heartbeat_answer(ErrorCode.NONE))
            else:
                self._context.reply(ask.token, refused(request, ask.api_version, error))
            return self._context.take_effects()
        self._begin(now)
        if isinstance(request, _NEEDS_GROUP_ID) and not request.group_id:
            invalid = refused(request, ask.api_version, ErrorCode.INVALID_GROUP_ID)
            self._context.reply(ask.token, invalid)
            return self._context.take_effects()
        match request:
            case HeartbeatRequest():
                self._syncing.handle_heartbeat(ask, request)
            case OffsetCommitRequest():
                self._committing.handle_commit(ask, request)
            case TxnOffsetCommitRequest():
                self._committing.handle_transactional_commit(ask, request)
            case JoinGroupRequest():
                self._joining.handle(ask, request)
            case SyncGroupRequest():
                self._syncing.handle_sync(ask, request)
            case LeaveGroupRequest():
                self._leaving.handle(ask, request)
            case OffsetDeleteRequest():
                self._committing.handle_delete(ask, request)
            case DeleteGroupsRequest():
                self._retiring.handle_delete(ask, request)
            case _:
                assert_never(request)
        return self._context.take_effects()

    def offset_fetch(
        self,
        group_id: str,
        topics: Mapping[str, Sequence[int]] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,  # noqa: ARG002  # matters with KIP-848 groups
        member_epoch: int = -1,  # noqa: ARG002  # likewise
    ) -> OffsetFetchResponseGroup:
        """The committed offsets of one group, topics by name.

        Args:
            group_id: the group; one that does not exist has no offsets, which is not an error.
            topics: the partitions asked for, by topic name; None for all that have an offset.
            require_stable: refuse, with UNSTABLE_OFFSET_COMMIT, offsets that an open transaction
                may change (KIP-447).
            member_id: v9+, for groups of the new protocol (KIP-848); classic groups ignore it.
            member_epoch: as ``member_id``.

        For v8 and v9 put the result into ``OffsetFetchResponse.groups``; v10 wants topic ids in
        place of names; for v1 to v7 see `minikafka.coordinator.group.single_group_response`.
        """
        return self._committing.fetch(group_id, topics, require_stable=require_stable)

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        """One group as DescribeGroups shows it (v6+: an unknown one is GROUP_ID_NOT_FOUND)."""
        return describe_group(self._context, group_id, api_version)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """All groups of this shard, or those in one of the states and of one of the types.

        While `error` is not NONE the list says nothing; Kafka answers the whole ListGroups with
        COORDINATOR_LOAD_IN_PROGRESS while a partition that this broker leads is loading.
        """
        return list_groups(self._context, states, types)

    def on_topics_deleted(self, topics: Collection[str], now: Now) -> list[Effect]:
        """Forget the offsets of topics that are gone."""
        if self._context.phase is Phase.ACTIVE:
            self._begin(now)
            self._retiring.forget_topics(topics)
        return self._context.take_effects()

    # --- time ------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to call `expire` (monotonic seconds); None while no timer runs."""
        return self._context.timers.deadline()

    def expire(self, now: Now) -> list[Effect]:
        """Let every timer fire that is due; calling it early does nothing.

        Raises:
            RuntimeError: an earlier `Append` was not carried out.
        """
        self._begin(now)
        while (timer := self._context.timers.pop_due(now.monotonic_s)) is not None:
            self._fire(timer)
        return self._context.take_effects()

    def _fire(self, timer: Timer) -> None:
        match timer.kind:
            case TimerKind.WRITE:
                self._context.failed(timer.write_id, ErrorCode.REQUEST_TIMED_OUT)
            case TimerKind.RETENTION:
                self._retiring.on_retention_timer()
            case TimerKind.SESSION:
                group = self._context.groups[timer.group_id]
                self._rebalance.on_session_timer(group, timer.member_id)
            case TimerKind.JOIN:
                self._rebalance.on_join_timer(self._context.groups[timer.group_id])
            case TimerKind.SYNC:
                self._rebalance.on_sync_timer(self._context.groups[timer.group_id])
            case _:
                assert_never(timer.kind)

    # --- the log ---------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1) -> None:
        """Load one record of the partition; unknown and damaged ones are logged and skipped.

        Args:
            key: of the record.
            value: of the record.
            producer_id: of the transactional batch that the record is in; -1 for other batches.

        Raises:
            RuntimeError: the shard has been loaded already.
        """
        if self._context.phase is not Phase.LOADING:
            raise RuntimeError(
                "replay is for loading; report what this shard appends with `appended`"
            )
        try:
            entry = decode_entry(key, value)
        except MalformedMessageError as error:
            _log.error("skipping a damaged record of __consumer_offsets: %s", error)
            return
        if isinstance(entry, UnknownKind):
            _log.info("skipping a record with a key of unknown version %d", entry.key_version)
            return
        self._context.apply(entry, producer_id)

    def replay_marker(self, producer_id: int, *, commits: bool) -> None:
        """Load a transaction marker of the partition."""
        self._committing.settle(self._context.pending_offsets.end(producer_id), commits=commits)

    def loaded(self, now: Now) -> list[Effect]:
        """The end of the log is reached: start the sessions of restored members, and serve."""
        self._context.phase = Phase.ACTIVE
        self._begin(now)
        size_max = self._context.config.group_max_size
        for group in self._context.groups.values():
            for member in group.members.values():
                self._rebalance.restart_session(group, member)
            if len(group.members) > size_max:
                reason = f"{len(group.members)} members were stored, {size_max} are allowed"
                self._rebalance.start_or_continue(group, reason)
        self._retiring.schedule()
        return self._context.take_effects()

    def appended(self, write_id: int) -> None:
        """The records of an `Append` are in the log: apply them to the stored state.

        Nothing happens for a write that is not pending any more, here and in the two calls below.
        """
        self._context.appended(write_id)

    def committed(self, write_id: int, now: Now) -> list[Effect]:
        """The high watermark has passed the records of an `Append`: release what waited for it.

        Includes `appended`, if that was not called. Writes may be reported in any order; the high
        watermark has passed a write only when it has passed those before it, too.
        """
        self._context.now = now
        self._context.committed(write_id)
        return self._context.take_effects()

    def append_failed(self, write_id: int, error: ErrorCode, now: Now) -> list[Effect]:
        """Nothing of an `Append` was written; ``error`` is what the log said (not yet mapped).

        After `appended` it means that nobody knows whether the write will survive: those who wait
        are told the error, and `committed` may still follow.
        """
        self._context.now = now
        self._context.failed(write_id, error)
        return self._context.take_effects()

    def marker_appended(self, producer_id: int) -> EndedOffsets:
        """A transaction's marker is in the partition.

        Returns:
            What to pass to `marker_committed` when the high watermark has passed it.
        """
        return self._context.pending_offsets.end(producer_id)

    def marker_committed(self, ended: EndedOffsets, *, commits: bool) -> None:
        """A transaction has ended: its offsets count, or are forgotten."""
        self._committing.settle(ended, commits=commits)

    def resigned(self) -> list[Effect]:
        """This broker no longer leads the partition: NOT_COORDINATOR for all who wait.

        The shard then forgets everything; to lead again, load a new one.
        """
        self._context.resign_writes()
        for group in self._context.groups.values():
            self._rebalance.resign(group)
        self._context.groups.clear()
        self._context.pending_offsets.clear()
        self._context.timers.clear()
        return self._context.take_effects()

    def _begin(self, now: Now) -> None:
        self._context.check_all_are_written()
        self._context.now = now
