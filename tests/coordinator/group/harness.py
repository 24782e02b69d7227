"""A shell around `GroupShard` in plain Python: a log, a clock, and clients.

`Shell` carries out effects immediately, as the broker would. ``shell.holds_commits`` keeps writes
above the high watermark until `Shell.commit_all`; ``shell.append_error`` lets appends fail. That no
request is answered twice is checked here, for all tests.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from minikafka.coordinator.group import (
    Append,
    Ask,
    Effect,
    GroupConfig,
    GroupRequest,
    GroupShard,
    Now,
    Record,
    Reply,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_groups as delete_groups_api
from minikafka.protocol.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    sync_group,
)

ResponseT = TypeVar("ResponseT")

GROUP = "readers"
TOPIC = "flights"
START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """What a consumer of these topics sends along in JoinGroup (version 1, no user data)."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">ii", -1, 0)


RANGE = (("range", subscription(TOPIC)),)


class Call(Generic[ResponseT]):
    """A request that was sent, and its answer once there is one."""

    def __init__(self) -> None:
        self._answer: ResponseT | None = None

    def take(self, response: ResponseT) -> None:
        assert self._answer is None, f"answered twice: {self._answer}, {response}"
        self._answer = response

    @property
    def is_answered(self) -> bool:
        return self._answer is not None

    @property
    def response(self) -> ResponseT:
        assert self._answer is not None, "not answered yet"
        return self._answer

    @property
    def error(self) -> ErrorCode:
        response: Any = self.response
        return ErrorCode(response.error_code)


class Shell:
    """One broker's shard, and the log of its partition."""

    def __init__(
        self,
        *,
        log: Iterable[Record] = (),
        now: Now | None = None,
        new_ids: itertools.count[int] | None = None,
        **settings: Any,
    ) -> None:
        self.log: list[Record] = list(log)
        self.now = now or Now(1000.0, START_MS)
        self.settings = settings
        self.new_ids = new_ids or itertools.count(1)
        self.shard = self.new_shard()
        self.holds_commits = False
        self.append_error = ErrorCode.NONE
        self.uncommitted: list[int] = []
        self._start_of: dict[int, int] = {}
        for key, value in self.log:
            self.shard.replay(key, value)
        self.carry_out(self.shard.loaded(self.now))

    def new_shard(self) -> GroupShard:
        return GroupShard(GroupConfig(**self.settings), new_id=lambda: str(next(self.new_ids)))

    def kept_log(self, *, keeps_uncommitted: bool) -> list[Record]:
        """What the next coordinator finds."""
        lost = [] if keeps_uncommitted else [self._start_of[write] for write in self.uncommitted]
        return self.log[: min(lost, default=len(self.log))]

    def restart(self, *, keeps_uncommitted: bool = True, **settings: Any) -> Shell:
        """The next coordinator: it loads the log, on the same clock."""
        return Shell(
            log=self.kept_log(keeps_uncommitted=keeps_uncommitted),
            now=self.now,
            new_ids=self.new_ids,
            **{**self.settings, **settings},
        )

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, response):
                    assert isinstance(token, Call)
                    token.take(response)
                case Append(records, write_id):
                    self._append(records, write_id)
                case _:
                    pass  # for shells that know more effects

    def _append(self, records: tuple[Record, ...], write_id: int) -> None:
        assert records
        if self.append_error is not ErrorCode.NONE:
            failed = self.shard.append_failed(write_id, self.append_error, self.now)
            self.carry_out(failed)
            return
        self._start_of[write_id] = len(self.log)
        self.log.extend(records)
        self.shard.appended(write_id)
        self.uncommitted.append(write_id)
        if not self.holds_commits:
            self.commit_all()

    def commit_all(self) -> None:
        """The high watermark reaches the end of the log."""
        while self.uncommitted:
            self.commit_one()

    def commit_one(self) -> None:
        """The high watermark passes one more write."""
        self.carry_out(self.shard.committed(self.uncommitted.pop(0), self.now))

    def advance(self, seconds: float) -> None:
        """Let time pass; each timer fires when it is due."""
        end_s = self.now.monotonic_s + seconds
        while (deadline := self.shard.deadline()) is not None and deadline <= end_s:
            self._set_time(deadline)
            self.carry_out(self.shard.expire(self.now))
        self._set_time(end_s)

    def _set_time(self, monotonic_s: float) -> None:
        passed_ms = round((monotonic_s - self.now.monotonic_s) * 1000)
        self.now = Now(monotonic_s, self.now.wall_ms + passed_ms)

    # --- requests --------------------------------------------------------------------------

    def ask(
        self,
        request: GroupRequest,
        version: int,
        call: Call[Any],
        client_id: str = "app",
        matched_topics: frozenset[str] | None = None,
    ) -> None:
        ask = Ask(request, version, client_id, "/10.0.0.7", call, matched_topics)
        self.carry_out(self.shard.handle(ask, self.now))

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        version: int = 9,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client_id: str = "app",
    ) -> Call[join_group.Response]:
        call: Call[join_group.Response] = Call()
        request = join_group.Request(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[join_group.Protocol(name=n, metadata=m) for n, m in protocols],
        )
        self.ask(request, version, call, client_id)
        return call

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        version: int = 5,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Call[sync_group.Response]:
        call: Call[sync_group.Response] = Call()
        request = sync_group.Request(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                sync_group.Assignment(member_id=to, assignment=assignment)
                for to, assignment in (assignments or {}).items()
            ],
        )
        self.ask(request, version, call)
        return call

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None
    ) -> ErrorCode:
        call: Call[heartbeat.Response] = Call()
        request = heartbeat.Request(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        self.ask(request, 4, call)
        return call.error

    def leave(
        self, *members: leave_group.MemberIdentity, group: str = GROUP
    ) -> leave_group.Response:
        call: Call[leave_group.Response] = Call()
        self.ask(leave_group.Request(group_id=group, members=list(members)), 5, call)
        return call.response

    def leave_v2(self, member_id: str, *, group: str = GROUP) -> ErrorCode:
        call: Call[leave_group.Response] = Call()
        self.ask(leave_group.Request(group_id=group, member_id=member_id), 2, call)
        return call.error

    def commit_later(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        group: str = GROUP,
        version: int = 9,
        instance: str | None = None,
        metadata: str | None = None,
        retention_ms: int = -1,
    ) -> Call[offset_commit.Response]:
        call: Call[offset_commit.Response] = Call()
        request = offset_commit.Request(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                offset_commit.RequestTopic(
                    name=topic,
                    partitions=[
                        offset_commit.RequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=4,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        self.ask(request, version, call)
        return call

    def commit(self, offset: int, **options: Any) -> ErrorCode:
        """Commit one offset of partition 0; the error of that partition."""
        return commit_error(self.commit_later({(TOPIC, 0): offset}, **options))

    def offset(self, topic: str = TOPIC, partition: int = 0, *, group: str = GROUP) -> int:
        """The committed offset that a client sees."""
        found = self.shard.offset_fetch(group, {topic: [partition]})
        return found.topics[0].partitions[0].committed_offset

    def delete_offsets(
        self, *partitions: tuple[str, int], group: str = GROUP
    ) -> Call[offset_delete.Response]:
        call: Call[offset_delete.Response] = Call()
        request = offset_delete.Request(
            group_id=group,
            topics=[
                offset_delete.RequestTopic(
                    name=topic, partitions=[offset_delete.RequestPartition(partition_index=index)]
                )
                for topic, index in partitions
            ],
        )
        self.ask(request, 0, call)
        return call

    def delete_groups(self, *groups: str) -> Call[delete_groups_api.Response]:
        call: Call[delete_groups_api.Response] = Call()
        self.ask(delete_groups_api.Request(groups_names=list(groups)), 2, call)
        return call

    # --- whole rebalances ------------------------------------------------------------------

    def state(self, group: str = GROUP) -> str:
        return self.shard.describe(group, 5).group_state

    def get_id(self, **options: Any) -> str:
        """The first half of a dynamic member's join (KIP-394)."""
        call = self.join(**options)
        assert call.error is ErrorCode.MEMBER_ID_REQUIRED
        return call.response.member_id

    def stable_group(self, size: int = 2, **options: Any) -> tuple[int, list[str]]:
        """Form a group of dynamic members; its generation, and the members, the leader first."""
        calls = [self.join(self.get_id(**options), **options) for _ in range(size)]
        while not calls[0].is_answered:
            self.advance(3)
        ids = [call.response.member_id for call in calls]
        leader = calls[0].response.leader
        ids.sort(key=lambda member_id: member_id != leader)
        generation = calls[0].response.generation_id
        self.sync_all(ids, generation, group=options.get("group", GROUP))
        return generation, ids

    def sync_all(self, ids: Sequence[str], generation: int, *, group: str = GROUP) -> None:
        """All members sync; each is assigned its own id. The first of them leads."""
        assignments = {member_id: member_id.encode() for member_id in ids}
        for member_id in ids[1:]:
            self.sync(member_id, generation, group=group)
        self.sync(ids[0], generation, assignments, group=group)
        assert self.state(group) == "Stable"


def commit_error(call: Call[offset_commit.Response]) -> ErrorCode:
    """The error of the only partition in a commit."""
    ((partition,),) = [topic.partitions for topic in call.response.topics]
    return ErrorCode(partition.error_code)


def member(member_id: str = "", instance: str | None = None) -> leave_group.MemberIdentity:
    """A member in LeaveGroup."""
    return leave_group.MemberIdentity(member_id=member_id, group_instance_id=instance)
