"""What the parts of a shard share: the state, the timers, and the way out for effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode

from .classic_group import ClassicGroup
from .config import GroupConfig
from .effects import Append, Effect, GroupResponse, Now, Reply
from .offsets import Offsets
from .pending_offsets import PendingOffsets
from .records import CommittedOffset, Entry, OffsetEntry, OffsetKey
from .states import GroupState
from .timers import Timers

__all__ = ["Phase", "ShardContext", "Timer", "TimerKind"]


class Phase(Enum):
    """The life of a shard; the value is what a request is answered in this phase."""

    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ACTIVE = ErrorCode.NONE
    RESIGNED = ErrorCode.NOT_COORDINATOR


class TimerKind(IntEnum):
    """What a timer is for."""

    SESSION = 0
    JOIN = 1
    SYNC = 2
    WRITE = 3
    RETENTION = 4


class Timer(NamedTuple):
    """The key of one timer; fields that its kind does not need stay as they are here."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""
    write_id: int = 0


@dataclass(slots=True)
class _Write:
    """An `Append` that the high watermark has not passed."""

    entries: Sequence[Entry]
    done: Callable[[ErrorCode], None] | None
    producer_id: int = -1
    is_appended: bool = False

    def visible_offsets(self) -> list[OffsetEntry]:
        """Offsets that readers see when it is committed; those of a transaction come later."""
        if self.producer_id >= 0:
            return []
        return [entry for entry in self.entries if isinstance(entry, OffsetEntry)]


class ShardContext:
    """State, timers and outgoing effects of one shard."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self.new_id = new_id
        self.phase = Phase.LOADING
        self.now = Now(0.0, 0)
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.pending_offsets = PendingOffsets()
        self.timers: Timers[Timer] = Timers()
        self._effects: list[Effect] = []
        self._writes: dict[int, _Write] = {}
        self._last_write_id = 0
        self._unwritten: set[int] = set()

    # --- effects ---------------------------------------------------------------------------

    def reply(self, token: object, response: GroupResponse) -> None:
        """Answer a request."""
        self._effects.append(Reply(token, response))

    def take_effects(self) -> list[Effect]:
        """All effects since the last call, in their order."""
        effects, self._effects = self._effects, []
        return effects

    def start_timer(self, timer: Timer, delay_ms: int) -> None:
        """Let a timer fire after ``delay_ms`` from now, in place of the one it had."""
        self.timers.set(timer, self.now.monotonic_s + delay_ms / 1000)

    # --- writes ----------------------------------------------------------------------------

    def append(
        self,
        entries: Sequence[Entry],
        done: Callable[[ErrorCode], None],
        producer: tuple[int, int] = (-1, -1),
    ) -> None:
        """Store entries as one batch, of a producer (id and epoch) in its transaction.

        ``done`` is called once: with NONE when the batch is committed, with an error code of the
        log when that failed or is not known in time.
        """
        self._last_write_id += 1
        write_id = self._last_write_id
        write = self._writes[write_id] = _Write(entries, done, producer[0])
        self._unwritten.add(write_id)
        for entry in write.visible_offsets():
            self.offsets.begin(entry.key)
        self.start_timer(
            Timer(TimerKind.WRITE, write_id=write_id), self.config.offset_commit_timeout_ms
        )
        records = tuple(entry.encode() for entry in entries)
        self._effects.append(Append(records, write_id, *producer))

    def append_in_pieces(
        self, entries: Sequence[Entry], done: Callable[[ErrorCode], None] | None = None
    ) -> None:
        """Store entries that need not be in one batch; ``done`` hears the first error, or NONE."""
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
        """Apply a write whose records are in the log now."""
        write = self._writes.get(write_id)
        if write is not None and not write.is_appended:
            write.is_appended = True
            self._unwritten.discard(write_id)
            for entry in write.entries:
                self.apply(entry, write.producer_id)

    def committed(self, write_id: int) -> None:
        """Release what waits for a write."""
        self.appended(write_id)
        write = self._writes.pop(write_id, None)
        if write is not None:
            self._settle(write_id, write, is_kept=True)
            self._finish(write_id, write, ErrorCode.NONE)

    def failed(self, write_id: int, error: ErrorCode) -> None:
        """Tell those who wait for a write that it failed, or (once appended) may have."""
        write = self._writes.get(write_id)
        if write is None:
            return
        if not write.is_appended:
            del self._writes[write_id]
            self._unwritten.discard(write_id)
            self._settle(write_id, write, is_kept=False)
        self._finish(write_id, write, error)

    def resign_writes(self) -> None:
        """Fail all writes."""
        self.phase = Phase.RESIGNED
        writes, self._writes = self._writes, {}
        self._unwritten.clear()
        for write_id, write in writes.items():
            self._finish(write_id, write, ErrorCode.NOT_COORDINATOR)

    def check_all_are_written(self) -> None:
        """Refuse to decide on a state that is not up to date.

        Raises:
            RuntimeError: the shell has not carried out an earlier `Append`.
        """
        if self._unwritten:
            raise RuntimeError(
                f"Append effects {sorted(self._unwritten)} were neither reported as appended nor "
                "as failed; carry out all effects of one call before the next"
            )

    def _settle(self, write_id: int, write: _Write, *, is_kept: bool) -> None:
        for entry in write.visible_offsets():
            self.offsets.settle(entry.key, entry.committed, write_id, is_kept=is_kept)

    def _finish(self, write_id: int, write: _Write, error: ErrorCode) -> None:
        self.timers.cancel(Timer(TimerKind.WRITE, write_id=write_id))
        done, write.done = write.done, None
        if done is not None:
            done(error)

    # --- stored state ----------------------------------------------------------------------

    def apply(self, entry: Entry, producer_id: int = -1) -> None:
        """Apply one record of the log; the only place where stored state changes.

        Args:
            entry: what it says.
            producer_id: in whose transaction it was written, -1 for none.
        """
        if isinstance(entry, OffsetEntry):
            if producer_id >= 0 and entry.committed is not None:
                self.pending_offsets.add(producer_id, entry.key, entry.committed)
            else:
                self.pending_offsets.supersede(entry.key)
                self.store_offset(entry.key, entry.committed)
        elif entry.value is None:
            self._forget_group(entry.group_id)
        elif self.phase is Phase.LOADING:
            self.groups[entry.group_id] = ClassicGroup.restored(entry.group_id, entry.value)
        else:
            self.groups[entry.group_id].apply(entry.value)

    def store_offset(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """An offset counts from now on; None deletes it."""
        self.offsets.replay(key, committed)
        if committed is not None and key.group_id not in self.groups:
            # Somebody stores offsets without being a member: a "simple" group.
            self.groups[key.group_id] = ClassicGroup(key.group_id)

    def _forget_group(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.move_to(GroupState.DEAD)
            for member_id in group.pending_members:
                self.timers.cancel(Timer(TimerKind.SESSION, group_id, member_id))
