"""What the parts of a shard share: its state, timers, pending writes and outgoing effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from minikafka.coordinator.timers import Timers
from minikafka.coordinator.writes import Append, Now, PendingWrites, Phase, Write
from minikafka.protocol.errors import ErrorCode

from .config import GroupConfig
from .effects import (
    CreateInternalTopics,
    DeleteShareState,
    Effect,
    GroupResponse,
    InitializeShareState,
    Match,
    NewTopic,
    Reply,
)
from .group import Group
from .offsets import Offsets
from .pending_offsets import PendingOffsets
from .records import CommittedOffset, Entry, OffsetEntry, OffsetKey
from .topics import GroupSettingsOf, Topics


class TimerKind(IntEnum):
    SESSION = 0
    JOIN = 1
    SYNC = 2
    WRITE = 3
    RETENTION = 4
    CONSUMER_SESSION = 5
    CONSUMER_REBALANCE = 6
    CONSUMER_JOIN = 7
    CONSUMER_SYNC = 8
    SHARE_SESSION = 9
    STREAMS_SESSION = 10
    STREAMS_REBALANCE = 11
    STREAMS_INITIAL = 12


class Timer(NamedTuple):
    """The key of a timer; which fields are used depends on the kind."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""
    write_id: int = 0


@dataclass(slots=True)
class _Write(Write):
    entries: Sequence[Entry]
    done: Callable[[ErrorCode], None] | None
    producer_id: int

    def visible_offsets(self) -> list[OffsetEntry]:
        """Offsets that become visible when this is committed; those of a transaction do later."""
        if self.producer_id >= 0:
            return []
        return [entry for entry in self.entries if isinstance(entry, OffsetEntry)]


class ShardContext:
    """The state that the rooms of a shard share.

    ``replay`` has, from all rooms (`classic`, `consumer`, `share`, `streams`), how each kind of
    record changes it. ``new_simple_group`` makes the group of offsets that were committed without
    one.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        replay: Mapping[type[Entry], Replay],
        new_simple_group: Callable[[ShardContext, str], Group],
        topics: Topics,
        settings_of: GroupSettingsOf,
    ) -> None:
        self.config = config
        self.new_id = new_id
        self.topics = topics
        self.settings_of = settings_of
        self.phase = Phase.LOADING
        self.now = Now(0.0, 0)
        self.members = config.member_memory.share()
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.pending_offsets = PendingOffsets()
        self.timers: Timers[Timer] = Timers()
        self._effects: list[Effect] = []
        self.writes: PendingWrites[_Write] = PendingWrites()
        self._new_simple_group = new_simple_group
        self._replay = replay

    @property
    def is_loading(self) -> bool:
        return self.phase is Phase.LOADING

    # --- effects ---------------------------------------------------------------------------

    def reply(self, token: object, response: GroupResponse) -> None:
        self._effects.append(Reply(token, response))

    def initialize_share_state(self, group_id: str, topics: Mapping[bytes, frozenset[int]]) -> None:
        self._effects.append(InitializeShareState(group_id, topics))

    def delete_share_state(self, group_id: str, topics: Mapping[bytes, frozenset[int]]) -> None:
        self._effects.append(DeleteShareState(group_id, topics))

    def create_internal_topics(self, group_id: str, topics: Sequence[NewTopic]) -> None:
        self._effects.append(CreateInternalTopics(group_id, tuple(topics)))

    def match(self, group_id: str, regex: str) -> None:
        self._effects.append(Match(group_id, regex))

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def start_timer(self, timer: Timer, delay_ms: int) -> None:
        self.timers.set(timer, self.now.monotonic_s + delay_ms / 1000)

    # --- writes ----------------------------------------------------------------------------

    def append(
        self,
        entries: Sequence[Entry],
        done: Callable[[ErrorCode], None],
        producer: tuple[int, int] = (-1, -1),
    ) -> None:
        """Store entries as one batch, transactional if a producer (id and epoch) is given.

        ``done`` is called once: with NONE when the batch is committed, with an error code of the
        log when that failed or the outcome is not known in time.
        """
        write_id = self.writes.new_id()
        write = _Write(write_id, False, entries, done, producer[0])
        self.writes.add(write)
        for entry in write.visible_offsets():
            self.offsets.begin(entry.key)
        self.start_timer(
            Timer(TimerKind.WRITE, write_id=write_id), self.config.offset_commit_timeout_ms
        )
        records = tuple(entry.encode() for entry in entries)
        self._effects.append(Append(records, write_id, *producer))

    def when_stored(self, done: Callable[[ErrorCode], None]) -> None:
        """Call ``done`` when all that was written so far is committed: at once if it is.

        An answer from the stored state could otherwise speak of what is lost with the leader.
        """
        last = self.writes.last
        if last is None:
            done(ErrorCode.NONE)
            return
        before = last.done

        def both(error: ErrorCode) -> None:
            if before is not None:
                before(error)
            done(error)

        last.done = both
        self.start_timer(
            Timer(TimerKind.WRITE, write_id=last.write_id), self.config.offset_commit_timeout_ms
        )

    def append_in_pieces(
        self, entries: Sequence[Entry], done: Callable[[ErrorCode], None] | None = None
    ) -> None:
        """Store entries in several batches; ``done`` is called with the first error, or NONE."""
        size = self.config.tombstones_per_append_max
        pieces = [entries[start : start + size] for start in range(0, len(entries), size)]
        errors: list[ErrorCode] = []

        def piece_done(error: ErrorCode) -> None:
            errors.append(error)
            if len(errors) == len(pieces) and done is not None:
                done(next((e for e in errors if e is not ErrorCode.NONE), ErrorCode.NONE))

        for piece in pieces:
            self.append(piece, piece_done)

    def appended(self, write_id: int) -> None:
        write = self.writes.appended(write_id)
        if write is not None:
            for entry in write.entries:
                self.apply(entry, write.producer_id)

    def committed(self, write_id: int) -> None:
        self.appended(write_id)
        write = self.writes.committed(write_id)
        if write is not None:
            self._settle(write, is_kept=True)
            self._finish(write, ErrorCode.NONE)

    def failed(self, write_id: int, error: ErrorCode) -> None:
        """A write failed or, if it was appended, may have failed."""
        write = self.writes.failed(write_id)
        if write is not None:
            if not write.is_appended:
                self._settle(write, is_kept=False)
            self._finish(write, error)

    def resign_writes(self) -> None:
        self.phase = Phase.RESIGNED
        for write in self.writes.resigned():
            self._finish(write, ErrorCode.NOT_COORDINATOR)

    def _settle(self, write: _Write, *, is_kept: bool) -> None:
        for entry in write.visible_offsets():
            self.offsets.settle(entry.key, entry.committed, write.write_id, is_kept=is_kept)

    def _finish(self, write: _Write, error: ErrorCode) -> None:
        self.timers.cancel(Timer(TimerKind.WRITE, write_id=write.write_id))
        done, write.done = write.done, None
        if done is not None:
            done(error)

    # --- stored state ----------------------------------------------------------------------

    def apply(self, entry: Entry, producer_id: int = -1) -> None:
        """Apply one record of the log, which may be of a transaction.

        Stored state changes only here (in the functions of the rooms) and in `store_offset`.
        """
        if isinstance(entry, OffsetEntry):
            if producer_id >= 0 and entry.committed is not None:
                self.pending_offsets.add(producer_id, entry.key, entry.committed)
            else:
                self.pending_offsets.supersede(entry.key)
                self.store_offset(entry.key, entry.committed)
        else:
            self._replay[type(entry)](self, entry)

    def store_offset(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Make a committed offset the current one; None deletes it."""
        self.offsets.replay(key, committed)
        if committed is not None and key.group_id not in self.groups:
            # Offsets without a member: a "simple" group.
            self.groups[key.group_id] = self._new_simple_group(self, key.group_id)


Replay = Callable[[ShardContext, Any], None]
"""Applies a record, of the one kind that it is for, to the stored state."""
