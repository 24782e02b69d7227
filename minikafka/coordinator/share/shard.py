"""One shard of the share coordinator: the state of share-partitions in one ``__share_group_state``.

It stores what leaders of share-partitions decide (`share_partition`), and decides itself only who
may write: the share-partition's last reader, told by leader epochs, as long as no administrator
has set another start, told by state epochs::

    command       fenced by                                 is stored as
    Initialize    a later state epoch                       a snapshot without batches
    Read          a later leader epoch                      an update
    Write         another state epoch, a later leader       an update, or now and then a snapshot
                  epoch
    Summarize     nothing                                   nothing
    Delete        nothing                                   a tombstone

The shell uses it like a group shard (see `minikafka.coordinator.group.shard`). Only what is stored
is answered after the high watermark has passed it; a summary is what is in the log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from minikafka.coordinator.timers import Timers
from minikafka.coordinator.writes import Append, Now, PendingWrites, Phase, Record
from minikafka.coordinator.writes import Write as PendingWrite
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError

from .commands import Command, Delete, Initialize, Read, Reply, ShareStateReply, Summarize, Write
from .records import (
    UNCHANGED,
    Entry,
    SharePartitionKey,
    ShareState,
    ShareUpdate,
    decode_entry,
    encode_snapshot,
    encode_update,
)

_log = logging.getLogger(__name__)

_WRITE_ERRORS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


class ShareStateConfig(NamedTuple):
    """Settings of the share coordinator.

    Attributes:
        updates_max: ``share.coordinator.snapshot.update.records.per.snapshot``.
        write_timeout_ms: ``share.coordinator.write.timeout.ms``.
    """

    updates_max: int = 500
    write_timeout_ms: int = 5000


@dataclass(slots=True)
class _Write(PendingWrite):
    entry: Entry
    token: object
    reply: ShareStateReply


Effect = Append | Reply


class ShareStateShard:
    """The state of the share-partitions of one partition."""

    def __init__(self, config: ShareStateConfig) -> None:
        self._config = config
        self._phase = Phase.LOADING
        self._states: dict[SharePartitionKey, ShareState] = {}
        self._writes: PendingWrites[_Write] = PendingWrites()
        self._timers: Timers[int] = Timers()
        self._snapshot_offsets: dict[SharePartitionKey, int] = {}

    @property
    def error(self) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS before `loaded`, NOT_COORDINATOR after `resigned`."""
        return self._phase.value

    def handle(self, command: Command, token: object, now: Now) -> list[Effect]:
        """Handle one command; its `Reply` is in this list or in a later one."""
        if self.error is not ErrorCode.NONE:
            return [Reply(token, ShareStateReply(self.error))]
        self._writes.check_all_are_written()
        state = self._states.get(command.key)
        match command:
            case Initialize():
                return self._initialize(state, command, token, now)
            case Read():
                return self._read(state, command, token, now)
            case Write():
                return self._write(state, command, token, now)
            case Summarize():
                return [Reply(token, _not_found() if state is None else _summary(state))]
            case Delete():
                if state is None:
                    return [Reply(token, ShareStateReply(ErrorCode.NONE))]
                done = ShareStateReply(ErrorCode.NONE)
                return self._append((command.key, None), token, done, now)
            case _:
                assert_never(command)

    def _initialize(
        self, state: ShareState | None, command: Initialize, token: object, now: Now
    ) -> list[Effect]:
        if state is not None and state.state_epoch > command.state_epoch:
            return [Reply(token, ShareStateReply(ErrorCode.FENCED_STATE_EPOCH))]
        if state is not None and (state.state_epoch, -1) == command[1:]:
            # A group coordinator that failed did not live to report it; it may be in use by now.
            return [Reply(token, _summary(state))]
        begun = ShareState(
            command.state_epoch,
            0 if state is None else state.leader_epoch,
            command.start_offset,
            0 if command.start_offset >= 0 else -1,
            (),
            0 if state is None else state.snapshot_epoch + 1,
            now.wall_ms,
            now.wall_ms,
        )
        return self._append((command.key, begun), token, _summary(begun), now)

    def _read(
        self, state: ShareState | None, command: Read, token: object, now: Now
    ) -> list[Effect]:
        if state is None:
            return [Reply(token, _not_found())]
        if command.leader_epoch < state.leader_epoch:
            return [Reply(token, ShareStateReply(ErrorCode.FENCED_LEADER_EPOCH))]
        found = _summary(state)._replace(leader_epoch=command.leader_epoch, batches=state.batches)
        # Stored even for a known leader: what a deposed coordinator has in memory may be outdated.
        update = ShareUpdate(
            state.snapshot_epoch,
            command.leader_epoch,
            UNCHANGED,
            state.delivery_complete_count,
            (),
        )
        return self._append((command.key, update), token, found, now)

    def _write(
        self, state: ShareState | None, command: Write, token: object, now: Now
    ) -> list[Effect]:
        if state is None:
            return [Reply(token, _not_found())]
        if command.leader_epoch < state.leader_epoch:
            return [Reply(token, ShareStateReply(ErrorCode.FENCED_LEADER_EPOCH))]
        if command.state_epoch != state.state_epoch:
            return [Reply(token, ShareStateReply(ErrorCode.FENCED_STATE_EPOCH))]
        update = ShareUpdate(
            state.snapshot_epoch,
            command.leader_epoch,
            command.start_offset,
            command.delivery_complete_count,
            command.batches,
        )
        entry: ShareState | ShareUpdate = update
        if state.updates >= self._config.updates_max:
            entry = replace(
                state.updated(update),
                snapshot_epoch=state.snapshot_epoch + 1,
                written_ms=now.wall_ms,
                updates=0,
            )
        return self._append((command.key, entry), token, ShareStateReply(ErrorCode.NONE), now)

    # --- writes ------------------------------------------------------------------------------

    def _append(
        self, entry: Entry, token: object, reply: ShareStateReply, now: Now
    ) -> list[Effect]:
        write_id = self._writes.new_id()
        self._writes.add(_Write(write_id, False, entry, token, reply))
        self._timers.set(write_id, now.monotonic_s + self._config.write_timeout_ms / 1000)
        return [Append((_encoded(entry),), write_id)]

    def appended(self, write_id: int) -> None:
        """The record of an `Append` is in the log: apply it to the stored state."""
        write = self._writes.appended(write_id)
        if write is not None:
            self._apply(*write.entry)

    def committed(self, write_id: int, now: Now) -> list[Effect]:
        """The high watermark has passed the record of an `Append`."""
        del now
        self.appended(write_id)
        write = self._writes.committed(write_id)
        return [] if write is None else self._answer(write, write.reply)

    def append_failed(self, write_id: int, error: ErrorCode, now: Now) -> list[Effect]:
        """An `Append` failed or, after `appended`, its outcome is unknown."""
        del now
        write = self._writes.failed(write_id)
        if write is None:
            return []
        return self._answer(write, ShareStateReply(_WRITE_ERRORS.get(error, error)))

    def _answer(self, write: _Write, reply: ShareStateReply) -> list[Effect]:
        self._timers.cancel(write.write_id)
        token, write.token = write.token, None
        return [] if token is None else [Reply(token, reply)]

    def deadline(self) -> float | None:
        """When to call `expire`, in monotonic seconds; None if no timer runs."""
        return self._timers.deadline()

    def expire(self, now: Now) -> list[Effect]:
        """Answer those whose write takes too long; calling it early does nothing."""
        effects: list[Effect] = []
        while (write_id := self._timers.pop_due(now.monotonic_s)) is not None:
            effects += self.append_failed(write_id, ErrorCode.REQUEST_TIMED_OUT, now)
        return effects

    def _apply(self, key: SharePartitionKey, change: ShareState | ShareUpdate | None) -> None:
        """The only place where stored state changes."""
        match change:
            case None:
                self._states.pop(key, None)
                self._snapshot_offsets.pop(key, None)
            case ShareState():
                self._states[key] = change
            case ShareUpdate():
                state = self._states.get(key)
                if state is not None and state.snapshot_epoch == change.snapshot_epoch:
                    self._states[key] = state.updated(change)

    # --- what of the log is needed ---------------------------------------------------------------

    def written_at(self, offset: int, key: bytes, value: bytes | None) -> None:
        """A record has this offset in the log."""
        try:
            decoded = decode_entry(key, value)
        except MalformedMessageError:
            return
        if decoded is not None and isinstance(decoded[1], ShareState):
            self._snapshot_offsets[decoded[0]] = offset

    def needed_from(self, end_offset: int) -> int:
        """The records below this offset say nothing that later ones do not say."""
        return min(self._snapshot_offsets.values(), default=end_offset)

    # --- becoming and ceasing to be the coordinator ----------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Load one record of the partition; unknown and damaged ones are logged and skipped."""
        try:
            decoded = decode_entry(key, value)
        except MalformedMessageError as error:
            _log.error("skipping a damaged record of __share_group_state: %s", error)
            return
        if decoded is None:
            _log.debug("skipping a record of __share_group_state with key %r", key)
            return
        self._apply(*decoded)

    def loaded(self) -> list[Effect]:
        """The whole log has been replayed: serve."""
        self._phase = Phase.ACTIVE
        return []

    def resigned(self) -> list[Effect]:
        """This broker no longer leads the partition: answer all commands with NOT_COORDINATOR."""
        self._phase = Phase.RESIGNED
        refusal = ShareStateReply(ErrorCode.NOT_COORDINATOR)
        effects: list[Effect] = []
        for write in self._writes.resigned():
            effects += self._answer(write, refusal)
        self._states.clear()
        self._timers.clear()
        return effects


def _encoded(entry: Entry) -> Record:
    key, change = entry
    return (
        encode_update(key, change)
        if isinstance(change, ShareUpdate)
        else encode_snapshot(key, change)
    )


def _summary(state: ShareState) -> ShareStateReply:
    return ShareStateReply(
        ErrorCode.NONE,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
    )


def _not_found() -> ShareStateReply:
    """No group has initialised it: the group was deleted, or the topic."""
    return ShareStateReply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
