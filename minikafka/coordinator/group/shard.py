"""One shard of the group coordinator: the groups of one ``__consumer_offsets`` partition.

How the shell uses it::

    shard = GroupShard(config, new_id=lambda: str(uuid4()))
    for key, value in records_of_the_partition:   # became leader: load
        shard.replay(key, value)
    carry_out(shard.loaded(now))
    ...
    carry_out(shard.handle(Ask(...), now))        # a request arrived
    carry_out(shard.expire(now))                  # shard.deadline() has passed
    carry_out(shard.resigned())                   # another broker leads the partition now

``carry_out`` processes the effects in order. `Reply`: send it. `Append`: write the batch, then
immediately call ``shard.appended(write_id)`` or
``carry_out(shard.append_failed(write_id, error, now))``, and
``carry_out(shard.committed(write_id, now))`` when the high watermark has passed the batch (on a
single broker: immediately). Transaction markers are appended to the partition by others; for each,
call ``ended = shard.marker_appended(producer_id)`` immediately, and
``shard.marker_committed(ended, ...)`` when the high watermark has passed it. All effects of one
call are carried out before the next `handle` or `expire`, because a decision must see what the one
before it stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from minikafka.coordinator.writes import Phase
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
    txn_offset_commit,
)
from minikafka.protocol.messages import list_groups as list_groups_api
from minikafka.protocol.messages import offset_fetch as offset_fetch_api

from .classic.replay import CLASSIC_REPLAY, new_simple_group
from .classic.requests import ClassicRequest, ClassicRequests
from .classic.responses import heartbeat_answer
from .cleanup import Cleanup
from .config import GroupConfig
from .consumer.consumer_group import ConsumerGroup
from .consumer.replay import CONSUMER_REPLAY
from .consumer.requests import ConsumerRequests
from .context import Replay, ShardContext, Timer, TimerKind
from .decoding import UnknownKind, decode_entry
from .descriptions import describe_consumer_group, describe_group, list_groups
from .effects import Ask, Effect, Now, ShareState
from .group import GroupType
from .offset_requests import OffsetRequests
from .on_command import OnCommand
from .pending_offsets import EndedOffsets
from .records import Entry
from .responses import refused
from .share.replay import SHARE_REPLAY
from .share.requests import ShareRequests
from .streams.replay import STREAMS_REPLAY
from .streams.requests import StreamsRequests
from .streams.streams_group import StreamsGroup
from .topics import GroupSettingsOf, Topics, TopicTable, default_settings

_log = logging.getLogger(__name__)

# Requests that need a group id; offsets may be committed under an empty one.
_NEEDS_GROUP_ID = (
    join_group.Request,
    sync_group.Request,
    heartbeat.Request,
    leave_group.Request,
    share_group_heartbeat.Request,
)
_REPLAY: dict[type[Entry], Replay] = {
    **CLASSIC_REPLAY,
    **CONSUMER_REPLAY,
    **SHARE_REPLAY,
    **STREAMS_REPLAY,
}


class GroupShard:
    """All groups and committed offsets of one partition.

    ``new_id`` returns a new UUID-like text: member ids are ``<client id>-<new id>``, those of
    static members ``<instance id>-<new id>``. ``topics`` are those of the cluster, ``settings_of``
    gives a group's own settings.
    """

    def __init__(
        self,
        config: GroupConfig,
        *,
        new_id: Callable[[], str],
        topics: Topics | None = None,
        settings_of: GroupSettingsOf = default_settings,
    ) -> None:
        self._context = ShardContext(
            config, new_id, _REPLAY, new_simple_group, topics or TopicTable(), settings_of
        )
        self._classic = ClassicRequests(self._context)
        self._consumer = ConsumerRequests(self._context, self._classic)
        self._share = ShareRequests(self._context)
        self._streams = StreamsRequests(self._context)
        self._rooms = (self._classic, self._consumer, self._share, self._streams)
        self._offset_requests = OffsetRequests(self._context, self._classic)
        self._cleanup = Cleanup(self._context)
        self._on_command = OnCommand(self._context, self._classic, self._consumer, self._streams)

    @property
    def error(self) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS before `loaded`, NOT_COORDINATOR after `resigned`."""
        return self._context.phase.value

    # --- requests --------------------------------------------------------------------------

    def handle(self, ask: Ask, now: Now) -> list[Effect]:
        """Handle one request; its `Reply` is in this list or in a later one.

        Raises:
            RuntimeError: an earlier `Append` was not carried out.
        """
        request = ask.request
        error = self.error
        if error is not ErrorCode.NONE:
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and isinstance(
                request, heartbeat.Request
            ):
                # No session runs yet, and an error would only make members look for a coordinator.
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
            case offset_commit.Request():
                self._offset_requests.handle_commit(ask, request)
            case txn_offset_commit.Request():
                self._offset_requests.handle_transactional_commit(ask, request)
            case offset_delete.Request():
                self._offset_requests.handle_delete(ask, request)
            case delete_groups.Request():
                self._cleanup.handle_delete(ask, request)
            case consumer_group_heartbeat.Request():
                self._consumer.handle(ask, request)
            case share_group_heartbeat.Request():
                self._share.handle_heartbeat(ask, request)
            case streams_group_heartbeat.Request():
                self._streams.handle(ask, request)
            case _:
                self._handle_classic(ask, request)
        return self._context.take_effects()

    def _handle_classic(self, ask: Ask, request: ClassicRequest) -> None:
        """The classic protocol; to a group of another type nobody belongs who speaks it."""
        group = self._context.groups.get(request.group_id)
        is_join = isinstance(request, join_group.Request)
        if group is None or group.TYPE is GroupType.CLASSIC:
            self._classic.handle(ask, request)
            return
        if isinstance(group, ConsumerGroup):
            if group.members:
                self._consumer.handle_classic(ask, request, group)
            else:
                if is_join:
                    self._consumer.forget_empty(group)
                self._classic.handle(ask, request)
            return
        if isinstance(group, StreamsGroup) and not group.members and is_join:
            self._streams.forget_empty(group)
            self._classic.handle(ask, request)
            return
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_join else ErrorCode.UNKNOWN_MEMBER_ID
        self._context.reply(ask.token, refused(request, ask.api_version, error))

    def offset_fetch(
        self,
        group_id: str,
        topics: Mapping[str, Sequence[int]] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> offset_fetch_api.ResponseGroup:
        """The committed offsets of one group, topics by name.

        Args:
            group_id: the group; one that does not exist has no offsets, which is not an error.
            topics: the partitions to look up, by topic name; None for all that have an offset.
            require_stable: return UNSTABLE_OFFSET_COMMIT for offsets that an open transaction may
                change (KIP-447).
            member_id: v9+, for groups of the new protocol (KIP-848); classic groups ignore it.
            member_epoch: as ``member_id``.

        For v8 and v9 put the result into ``offset_fetch.Response.groups``; v10 has topic ids in
        place of names; for v1 to v7 see `minikafka.coordinator.group.single_group_response`.
        """
        return self._offset_requests.fetch(
            group_id,
            topics,
            require_stable=require_stable,
            member_id=member_id,
            member_epoch=member_epoch,
        )

    def describe(self, group_id: str, api_version: int) -> describe_groups.DescribedGroup:
        return describe_group(self._context, group_id, api_version)

    def describe_consumer(self, group_id: str) -> consumer_group_describe.DescribedGroup:
        return describe_consumer_group(self._context, group_id)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[list_groups_api.ListedGroup]:
        """All groups of this shard, or those in one of the states and of one of the types.

        The list is incomplete while `error` is not NONE; Kafka answers the whole ListGroups with
        COORDINATOR_LOAD_IN_PROGRESS while a partition that this broker leads is loading.
        """
        return list_groups(self._context, states, types)

    def describe_share_group(self, group_id: str) -> share_group_describe.DescribedGroup:
        """A share group, its members and what they read."""
        return self._share.describe(group_id)

    def describe_streams_group(self, group_id: str) -> streams_group_describe.DescribedGroup:
        """A streams group, its topology, members and their tasks."""
        return self._streams.describe(group_id)

    def share_state(self, group_id: str) -> ShareState:
        """What a share group has state for, and whether an administrator may change it."""
        return self._share.state(group_id)

    def share_state_initialized(
        self, group_id: str, topics: Mapping[bytes, frozenset[int]], now: Now
    ) -> list[Effect]:
        """The state of these partitions exists; that of others that were asked for does not."""
        if self._context.phase is Phase.ACTIVE:
            self._begin(now)
            self._share.initialized(group_id, topics)
        return self._context.take_effects()

    def share_state_deleted(
        self, group_id: str, topic_ids: Collection[bytes], now: Now
    ) -> list[Effect]:
        """The state of these topics is gone: a group that still reads them begins once more."""
        if self._context.phase is Phase.ACTIVE:
            self._begin(now)
            self._share.deleted(group_id, topic_ids)
        return self._context.take_effects()

    def on_topics_deleted(self, topics: Collection[str], now: Now) -> list[Effect]:
        if self._context.phase is Phase.ACTIVE:
            self._begin(now)
            self._cleanup.forget_topics(topics)
            self._share.forget_topics(topics)
        return self._context.take_effects()

    def on_topics_changed(self, topics: Collection[str], now: Now) -> list[Effect]:
        """Topics of these names were created or deleted, or have more partitions."""
        if self._context.phase is Phase.ACTIVE:
            self._begin(now)
            self._consumer.topics_changed(topics)
        return self._context.take_effects()

    def matched(self, group_id: str, regex: str, topics: frozenset[str], now: Now) -> list[Effect]:
        """The answer to a `Match`: the names of all topics that the regular expression matches."""
        if self._context.phase is Phase.ACTIVE:
            self._begin(now)
            self._consumer.matched(group_id, regex, topics)
        return self._context.take_effects()

    # --- time ------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to call `expire`, in monotonic seconds; None if no timer runs."""
        return self._context.timers.deadline()

    def expire(self, now: Now) -> list[Effect]:
        """Fire timers that are due; calling it early does nothing.

        Stops after one that has something to write, because the next decision has to see that;
        `deadline` is in the past then, so that this is called again.

        Raises:
            RuntimeError: an earlier `Append` was not carried out.
        """
        self._begin(now)
        while (timer := self._context.timers.pop_due(now.monotonic_s)) is not None:
            self._fire(timer)
            if self._context.writes.has_unwritten:
                break
        return self._context.take_effects()

    def end_sessions(self, group_id: str, name: str, now: Now) -> list[Effect]:
        """Remove members as the ends of their sessions would, however recently they were heard.

        ``name`` is a member id, or the instance id or client id of one or more members.

        Raises:
            ValueError: there is no such member.
        """
        self._begin(now)
        self._on_command.end_sessions(group_id, name)
        return self._context.take_effects()

    def rebalance(self, group_id: str, reason: str, now: Now) -> list[Effect]:
        """Have all members of a group join again.

        Raises:
            ValueError: the group has no members.
        """
        self._begin(now)
        self._on_command.rebalance(group_id, reason)
        return self._context.take_effects()

    def _fire(self, timer: Timer) -> None:
        if timer.kind is TimerKind.WRITE:
            self._context.failed(timer.write_id, ErrorCode.REQUEST_TIMED_OUT)
        elif timer.kind is TimerKind.RETENTION:
            self._cleanup.on_retention_timer()
        else:
            next(room for room in self._rooms if timer.kind in room.TIMERS).fire(timer)

    # --- the log ---------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1) -> None:
        """Load one record of the partition; unknown and damaged ones are logged and skipped.

        ``producer_id`` is that of the transactional batch the record is in; -1 for other batches.

        Raises:
            RuntimeError: the shard has been loaded already.
        """
        if self._context.phase is not Phase.LOADING:
            raise RuntimeError(
                "replay is only for loading; report this shard's own appends with `appended`"
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
        self._offset_requests.settle(
            self._context.pending_offsets.end(producer_id), commits=commits
        )

    def loaded(self, now: Now) -> list[Effect]:
        """The whole log has been replayed: start the sessions of restored members, and serve."""
        self._context.phase = Phase.ACTIVE
        self._begin(now)
        for room in self._rooms:
            room.loaded()
        self._cleanup.schedule()
        return self._context.take_effects()

    def appended(self, write_id: int) -> None:
        """The records of an `Append` are in the log: apply them to the stored state.

        This and the next two methods ignore a write that is no longer pending.
        """
        self._context.appended(write_id)

    def committed(self, write_id: int, now: Now) -> list[Effect]:
        """The high watermark has passed the records of an `Append`: send the replies it held back.

        Includes `appended`, if that was not called. Writes may be reported in any order.
        """
        self._context.now = now
        self._context.committed(write_id)
        return self._context.take_effects()

    def append_failed(self, write_id: int, error: ErrorCode, now: Now) -> list[Effect]:
        """An `Append` failed; ``error`` is the log's, not yet mapped to an error for clients.

        After `appended` it means that the outcome is unknown: waiting requests are answered with
        the error, and `committed` may still follow.
        """
        self._context.now = now
        self._context.failed(write_id, error)
        return self._context.take_effects()

    def marker_appended(self, producer_id: int) -> EndedOffsets:
        """A transaction's marker is in the partition; pass the result to `marker_committed`."""
        return self._context.pending_offsets.end(producer_id)

    def marker_committed(self, ended: EndedOffsets, *, commits: bool) -> None:
        """The high watermark has passed a marker: its transaction's offsets now count, or not."""
        self._offset_requests.settle(ended, commits=commits)

    def resigned(self) -> list[Effect]:
        """This broker no longer leads the partition: answer waiting requests with NOT_COORDINATOR.

        The shard cannot be used again; to lead again, load a new one.
        """
        self._context.resign_writes()
        for room in self._rooms:
            room.resign()
        for group in self._context.groups.values():
            group.discard()
        self._context.groups.clear()
        self._context.pending_offsets.clear()
        self._context.timers.clear()
        return self._context.take_effects()

    def _begin(self, now: Now) -> None:
        self._context.writes.check_all_are_written()
        self._context.now = now
