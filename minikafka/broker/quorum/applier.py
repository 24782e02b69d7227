"""Applies what the quorum has committed, in order, and decides when a snapshot is due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import trio

from ...consensus.durable import DurableLog
from ...consensus.messages import Entry
from ...consensus.voters import is_decision
from ...data_class import DataClass
from ...storage.errors import StorageError

_CHUNK_SIZE_BYTES_MAX: Final = 256 * 1024


class _Snapshot(NamedTuple):
    """Replaces everything applied so far."""

    last_index: int
    payloads: list[bytes]


class QuorumHooks(DataClass):
    """What the broker does with decisions; see `Quorum.run`."""

    on_committed: Callable[[int, bytes], Awaitable[None]]
    make_snapshot: Callable[[], list[bytes]] | None
    load_snapshot: Callable[[int, list[bytes]], Awaitable[None]] | None


class Applier:
    """One task that runs behind the commit index.

    Args:
        durable: the files.
        disk_lock: held while they are written.
        compact: lets a snapshot stand for everything up to an index; returns when it does, or
            when that was not possible.
        on_applied: called after each entry or snapshot.
        on_unreadable: called when the files cannot be read; then they have to be replaced.
        snapshot_size_bytes_min: below this size the log is left alone.

    Attributes:
        applied_index: everything up to here was applied.
        committed_index: everything up to here is going to be.
    """

    def __init__(
        self,
        durable: DurableLog,
        disk_lock: trio.Lock,
        *,
        compact: Callable[[int, list[bytes]], Awaitable[None]],
        on_applied: Callable[[], None],
        on_unreadable: Callable[[OSError | StorageError], None],
        snapshot_size_bytes_min: int,
    ) -> None:
        self._durable = durable
        self._disk_lock = disk_lock
        self._compact = compact
        self._on_applied = on_applied
        self._on_unreadable = on_unreadable
        self._snapshot_size_bytes_min = snapshot_size_bytes_min
        self._snapshot_at = max(snapshot_size_bytes_min, 2 * durable.snapshot_size_bytes)
        self.applied_index = self.committed_index = durable.commit_index
        self._installed_index = 0
        self._work = trio.Event()
        self._replaced = trio.Event()
        self._waiting: dict[trio.Event, int] = {}

    def replayed(self, index: int) -> None:
        """Before it runs: everything up to `index` was applied when the files were opened."""
        self.applied_index = self.committed_index = index

    def committed(self, index: int) -> None:
        self.committed_index = max(self.committed_index, index)
        self._work.set()

    def installed(self, index: int) -> None:
        """A snapshot has replaced the log: it has to be loaded."""
        self._installed_index = index
        self.committed(index)

    def replace_durable(self, durable: DurableLog) -> None:
        """The files were opened again; they may hold a snapshot that is not loaded."""
        self._durable = durable
        if durable.log.base_index > self.applied_index:
            self.installed(durable.log.base_index)
        self._replaced.set()

    async def wait_applied(self, index: int) -> None:
        while self.applied_index < index:
            event = trio.Event()
            self._waiting[event] = index
            try:
                await event.wait()
            finally:
                self._waiting.pop(event, None)

    async def run(self, hooks: QuorumHooks) -> None:
        while True:
            if self.applied_index >= self.committed_index:
                self._work = trio.Event()
                await self._work.wait()
            try:
                step = await self._read()
            except (OSError, StorageError) as error:
                self._replaced = trio.Event()
                self._on_unreadable(error)
                await self._replaced.wait()
                continue
            if isinstance(step, _Snapshot):
                await self._load(hooks, step)
            else:
                await self._apply(hooks, step)
                await self._snapshot(hooks)

    async def _read(self) -> Sequence[Entry] | _Snapshot:
        """What comes next; the disk is read only while nothing is written to it."""
        first = self.applied_index + 1
        if self._installed_index < first and self._durable.log.is_in_memory(first):
            return self._entries(first)
        async with self._disk_lock:
            durable = self._durable
            if self._installed_index >= first:
                # It may be a later one than was announced, which does as well.
                return _Snapshot(*durable.stored_snapshot())
            if durable.log.base_index >= first:
                return ()  # a snapshot is being installed
            return self._entries(first)

    def _entries(self, first: int) -> Sequence[Entry]:
        entries = self._durable.log.entries(first, _CHUNK_SIZE_BYTES_MAX)
        return entries[: self.committed_index + 1 - first]

    def _has_applied(self, index: int) -> None:
        self.applied_index = index
        self._on_applied()
        for event, awaited in list(self._waiting.items()):
            if awaited <= index:
                event.set()

    async def _load(self, hooks: QuorumHooks, snapshot: _Snapshot) -> None:
        if hooks.load_snapshot is None:
            raise RuntimeError("a leader sent a snapshot, and this node cannot load one")
        await hooks.load_snapshot(snapshot.last_index, snapshot.payloads)
        size_bytes = self._durable.snapshot_size_bytes
        self._snapshot_at = max(self._snapshot_size_bytes_min, 2 * size_bytes)
        self._has_applied(snapshot.last_index)

    async def _apply(self, hooks: QuorumHooks, entries: Sequence[Entry]) -> None:
        for index, entry in enumerate(entries, self.applied_index + 1):
            if is_decision(entry.payload):
                await hooks.on_committed(index, entry.payload)
            self._has_applied(index)

    async def _snapshot(self, hooks: QuorumHooks) -> None:
        """Replace the log when it is twice as long as needed."""
        if hooks.make_snapshot is None or self._durable.size_bytes < self._snapshot_at:
            return
        await self._compact(self.applied_index, hooks.make_snapshot())
        self._snapshot_at = max(self._snapshot_size_bytes_min, 2 * self._durable.size_bytes)
