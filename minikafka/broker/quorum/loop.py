"""The loop that drives a node of the quorum: events in, effects carried out, in order.

What a batch of events wants on disk is written in a worker thread with one fsync, before anything
that depends on it is sent. Events come first and the deadline after them: what has come meanwhile
may have moved it, for example after a write that took long.

When the disk fails, the machine is thrown away. A leader asks another voter to take over; then the
node says nothing, as if it were dead, until its files can be opened again. After a failed fsync
the contents of the disk are unknown, and only a new process may read it. A node whose committed log
was superseded says nothing from then on, either.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, assert_never

import trio

from ...consensus.config import QuorumConfig
from ...consensus.durable import DurableLog
from ...consensus.effects import (
    Accepted,
    Committed,
    Effect,
    Event,
    PersistEntries,
    PersistSnapshot,
    PersistState,
    Refused,
    RoleChanged,
    Send,
    SnapshotInstalled,
)
from ...consensus.follower import SupersededLog
from ...consensus.messages import Message
from ...consensus.raft import RaftNode
from ...storage.errors import StorageError
from ..system.workers import RunInThread
from .applier import Applier

logger = logging.getLogger(__name__)

EVENTS_MAX: Final = 10_000
"""Events that wait to be handled; more are dropped, and their senders repeat them."""
EVENTS_PER_WRITE_MAX: Final = 512
"""Events whose effects share one fsync."""
RETRY_S: Final = 1.0
"""How long a node waits before it opens its files again after the disk failed."""


class _Compaction:
    """A snapshot that waits to be written, because nothing else may use the log meanwhile."""

    __slots__ = ("done", "index", "payloads")

    def __init__(self, index: int, payloads: list[bytes]) -> None:
        self.index = index
        self.payloads = payloads
        self.done = trio.Event()


class QuorumLoop:
    """See the module's text.

    Args:
        config: who takes part.
        durable: the node's files, open.
        open_durable: opens them again; may block.
        dice: (low, high) -> a random number between them.
        run_in_thread: runs what blocks.
        on_answer: takes what becomes of proposals, and changes of the role.
        on_failed: called when the disk failed, and with None when the node is back.
        on_progress: called when anything may have changed.
        snapshot_size_bytes_min: how long the log gets at least before a snapshot.

    Attributes:
        node: the machine; None before it runs and while the disk fails.
        durable: the files.
        applier: the task behind the commit index.
        has_begun: set after the first attempt to take part.
        send: where messages go.
    """

    def __init__(
        self,
        config: QuorumConfig,
        durable: DurableLog,
        open_durable: Callable[[], DurableLog],
        *,
        dice: Callable[[float, float], float],
        run_in_thread: RunInThread,
        on_answer: Callable[[Accepted | Refused | RoleChanged], None],
        on_failed: Callable[[StorageError | None], None],
        on_progress: Callable[[], None],
        snapshot_size_bytes_min: int,
    ) -> None:
        self._config: Final = config
        self.durable = durable
        self._is_superseded = False
        self._open_durable: Final = open_durable
        self._dice: Final = dice
        self._run_in_thread: Final = run_in_thread
        self._on_answer: Final = on_answer
        self._on_failed: Final = on_failed
        self._on_progress: Final = on_progress
        self._disk_lock: Final = trio.Lock()
        self.applier: Final = Applier(
            durable,
            self._disk_lock,
            compact=self._compact,
            on_applied=on_progress,
            on_unreadable=self._put,
            snapshot_size_bytes_min=snapshot_size_bytes_min,
        )
        self.node: RaftNode | None = None
        self.has_begun: Final = trio.Event()
        self.send: Callable[[int, Message], None]
        self._events: Final[deque[Event | _Compaction | OSError | StorageError]] = deque()
        self._has_events = trio.Event()

    def put(self, event: Event) -> bool:
        """Something happened; False when it is dropped."""
        if self.node is None or len(self._events) >= EVENTS_MAX:
            return False
        self._put(event)
        return True

    def _put(self, event: Event | _Compaction | OSError | StorageError) -> None:
        self._events.append(event)
        self._has_events.set()

    async def run(self) -> None:
        while True:
            try:
                await self._begin()
                self.has_begun.set()
                while True:
                    await self._wait_for_work()
                    await self._handle_events()
            except (OSError, StorageError) as error:
                self._fail(error)
            self.has_begun.set()
            await self._open_again()

    async def _begin(self) -> None:
        durable, applier = self.durable, self.applier
        node = self.node = RaftNode(
            self._config,
            durable.log,
            epoch=durable.epoch,
            vote=durable.vote,
            directory_id=durable.directory_id,
            is_admitted=durable.is_admitted,
            commit_index=max(durable.commit_index, applier.applied_index),
            read_snapshot=durable.read_snapshot,
            dice=self._dice,
        )
        commit_index = node.commit_index
        await self._carry_out(node, node.start(trio.current_time()))
        applier.committed(commit_index)
        self._on_progress()

    async def _wait_for_work(self) -> None:
        """Wait for an event or the deadline; let other tasks run in any case."""
        deadline = self.node.deadline() if self.node is not None else None
        if self._events:
            await trio.lowlevel.checkpoint()
            return
        self._has_events = trio.Event()
        with trio.move_on_at(math.inf if deadline is None else deadline):
            await self._has_events.wait()

    async def _handle_events(self) -> None:
        node = self.node
        assert node is not None
        now = trio.current_time()
        effects: list[Effect] = []
        for _ in range(min(len(self._events), EVENTS_PER_WRITE_MAX)):
            event = self._events.popleft()
            if isinstance(event, _Compaction):
                await self._carry_out(node, effects)
                effects = []
                await self._write_snapshot(event)
            elif isinstance(event, OSError | StorageError):
                raise event
            else:
                effects += node.handle(event, now)
        deadline = node.deadline()
        if not self._events and deadline is not None and deadline <= now:
            effects += node.expire(now)
        await self._carry_out(node, effects)
        node.log.forget_old()
        self._on_progress()

    async def _carry_out(self, node: RaftNode, effects: Sequence[Effect]) -> None:
        """All of them, in order, except that the first write takes the later ones with it."""
        kinds = (PersistState, PersistEntries, PersistSnapshot)
        writes = [effect for effect in effects if isinstance(effect, kinds)]
        for effect in effects:
            match effect:
                case PersistState() | PersistEntries() | PersistSnapshot():
                    if writes:
                        write = partial(self.durable.write, writes, node.commit_index)
                        writes = []
                        async with self._disk_lock:
                            await self._run_in_thread(write)
                case Send(node_id=node_id, message=message):
                    self.send(node_id, message)
                case Committed(index=index):
                    self.applier.committed(index)
                case SnapshotInstalled(index=index):
                    self.applier.installed(index)
                case Accepted() | Refused() | RoleChanged():
                    self._on_answer(effect)
                case _:
                    assert_never(effect)

    # --- snapshots -----------------------------------------------------------------------------

    async def _compact(self, index: int, payloads: list[bytes]) -> None:
        compaction = _Compaction(index, payloads)
        self._put(compaction)
        await compaction.done.wait()

    async def _write_snapshot(self, compaction: _Compaction) -> None:
        """Write it, unless a leader's has come meanwhile; without it the log just gets longer."""
        durable = self.durable
        try:
            if compaction.index > durable.log.base_index:
                write = partial(durable.compact, compaction.index, compaction.payloads)
                async with self._disk_lock:
                    await self._run_in_thread(write)
        except (OSError, StorageError, ValueError) as error:
            if not durable.is_usable:
                raise
            logger.error("the metadata log cannot be replaced by a snapshot: %s", error)
        finally:
            compaction.done.set()

    # --- disks that fail -----------------------------------------------------------------------

    def _fail(self, error: OSError | StorageError) -> None:
        """Let others lead, and be silent."""
        node = self.node
        if node is not None:
            for effect in node.resign(trio.current_time()):
                if isinstance(effect, Send):
                    self.send(effect.node_id, effect.message)
        until = "as long as that is so"
        if not self.durable.is_usable:
            until = "until this node is started again with a disk that works"
        failure = StorageError(
            f"the metadata log cannot be used: {error}; this node changes nothing about the "
            f"cluster {until}"
        )
        if isinstance(error, SupersededLog):
            self._is_superseded = True
            failure = error
        logger.error("%s", failure)
        self.stop(failure)

    def stop(self, failure: StorageError | None = None) -> None:
        """Stop taking part; events that were not handled are dropped."""
        self.node = None
        events = list(self._events)
        self._events.clear()
        for event in events:
            if isinstance(event, _Compaction):
                event.done.set()
        if failure is not None:
            self._on_failed(failure)

    async def _open_again(self) -> None:
        """Come back as after a crash, when the files can be opened."""
        if self._is_superseded or not self.durable.is_usable:
            await trio.sleep_forever()
        async with self._disk_lock:
            self.durable.close(self.applier.committed_index)
            while True:
                await trio.sleep(RETRY_S)
                try:
                    self.durable = await self._run_in_thread(self._open_durable)
                except (OSError, StorageError) as error:
                    logger.error("the metadata log cannot be opened: %s", error)
                else:
                    break
        self.applier.replace_durable(self.durable)
        self._on_failed(None)
