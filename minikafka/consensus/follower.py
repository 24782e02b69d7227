"""A follower or observer: what it does with the messages of its leader."""

from __future__ import annotations

import logging
from typing import NamedTuple

from minikafka.storage.errors import StorageError

from .context import RaftContext
from .effects import PersistEntries, PersistSnapshot, SnapshotInstalled
from .log import RaftLog
from .messages import (
    AppendRequest,
    AppendResponse,
    Entry,
    JoinRequest,
    LeaderHint,
    SnapshotRequest,
    SnapshotResponse,
)
from .snapshot import MalformedSnapshot, decode_snapshot
from .voters import KRAFT_VERSION_MAX, voters_in

__all__ = ["Follower", "SupersededLog"]

logger = logging.getLogger(__name__)


class SupersededLog(StorageError):
    """The leader's log lacks entries that this node knows to be committed."""

    def __init__(self, leader: int, index: int, own_epoch: int, epoch: int) -> None:
        super().__init__(
            f"the metadata log of node {leader}, which leads the quorum, has an entry of epoch "
            f"{epoch} at index {index}, where this node has a committed entry of epoch "
            f"{own_epoch}: the quorum was continued without this node's committed entries (a "
            "majority of the voters lost their data directories, or older copies were restored). "
            "To go on with the leader's log, move this node's data directory away and start it "
            "with an empty one; to keep this node's entries instead, stop the other nodes and "
            "start from this one (see 'minikafka quorum admit --help')"
        )


class _Incoming(NamedTuple):
    """A snapshot that has not arrived completely."""

    last_index: int
    last_epoch: int
    size_bytes: int
    received: bytearray


class Follower:
    """The part of a node that follows."""

    __slots__ = ("_context", "_incoming")

    def __init__(self, context: RaftContext) -> None:
        self._context = context
        self._incoming: _Incoming | None = None

    @property
    def _log(self) -> RaftLog:
        return self._context.log

    def handle_append(self, leader: int, request: AppendRequest) -> None:
        """Store the entries of the current epoch's leader, and answer."""
        context = self._context
        log = self._log
        previous, entries = request.previous_index, request.entries
        last = previous + len(entries)
        known = context.commit_index - previous
        self._require_what_is_committed(leader, previous, request.previous_epoch)
        if known > 0:
            # Committed entries are the same in every leader's log.
            for index, entry in enumerate(entries[:known], previous + 1):
                self._require_what_is_committed(leader, index, entry.epoch)
            entries = entries[known:]
            previous = context.commit_index
            last = max(last, previous)
        elif not log.matches(previous, request.previous_epoch):
            index, epoch = log.last_not_after(previous, request.previous_epoch)
            self._answer(leader, previous, index, epoch, is_accepted=False)
            return
        self._store(previous + 1, entries)
        context.commit(min(request.commit_index, last))
        if request.admitted_directory == context.directory_id and not context.is_admitted:
            # The lost directory may have voted for this leader. A second vote in this epoch could
            # help another candidate to win it, too, so this one votes for the leader now.
            context.cast_vote(leader)
            logger.info(
                "metadata quorum: node %d has admitted this node's new data directory: it votes, "
                "and counts in majorities",
                leader,
            )
        self._answer(leader, previous, last)

    def _answer(
        self,
        leader: int,
        previous: int,
        last: int,
        last_epoch: int = 0,
        *,
        is_accepted: bool = True,
    ) -> None:
        context = self._context
        response = AppendResponse(
            context.epoch,
            is_accepted,
            previous,
            last,
            last_epoch,
            context.directory_id,
            context.is_admitted,
            KRAFT_VERSION_MAX,
        )
        context.send(leader, response)

    def _require_what_is_committed(self, leader: int, index: int, epoch: int) -> None:
        """Compare an entry of the leader's log with a committed one.

        Raises:
            SupersededLog: they are of different epochs.
        """
        context = self._context
        log = self._log
        if log.base_index <= index <= context.commit_index and log.epoch_at(index) != epoch:
            raise SupersededLog(leader, index, log.epoch_at(index), epoch)

    def _store(self, index: int, entries: tuple[Entry, ...]) -> None:
        """Append what is new; entries of ours from the first that differs on were not committed."""
        log = self._log
        for count, entry in enumerate(entries):
            if not log.matches(index + count, entry.epoch):
                if index + count <= log.last_index:
                    log.truncate_to(index + count)
                log.append(entries[count:])
                self._context.emit(PersistEntries(index + count, entries[count:]))
                self._context.settle_role()
                return

    # --- snapshots ---------------------------------------------------------------------------

    def handle_snapshot(self, leader: int, request: SnapshotRequest) -> None:
        """Take a piece of the snapshot of a leader whose log does not go back far enough."""
        context = self._context
        self._require_what_is_committed(leader, request.last_index, request.last_epoch)
        if self._log.matches(request.last_index, request.last_epoch):
            # The log has all of it, and what follows may have been acknowledged: keep it.
            context.commit(request.last_index)
        if request.last_index <= context.commit_index:
            index = context.commit_index
            self._answer(leader, index, index)
            return
        incoming = self._receive(request)
        if incoming is None:
            return
        if len(incoming.received) < incoming.size_bytes:
            position = len(incoming.received)
            context.send(leader, SnapshotResponse(context.epoch, request.last_index, position))
            return
        self._incoming = None
        snapshot = bytes(incoming.received)
        try:
            voters = voters_in(decode_snapshot(snapshot))
        except MalformedSnapshot as error:
            logger.error("node %d sent something that is not a snapshot: %s", leader, error)
            return
        index = request.last_index
        self._log.replace_by_snapshot(index, request.last_epoch, voters)
        context.emit(PersistSnapshot(index, request.last_epoch, snapshot))
        context.commit_index = index
        context.settle_role()
        context.emit(SnapshotInstalled(index))
        self._answer(leader, index, index)

    def _receive(self, request: SnapshotRequest) -> _Incoming | None:
        """Add the piece if it follows the others; None when the snapshot is too large."""
        size_bytes_max = self._context.config.snapshot_size_bytes_max
        if request.size_bytes > size_bytes_max:
            logger.error(
                "the leader's snapshot of the quorum's log has %d bytes, more than the %d allowed",
                request.size_bytes,
                size_bytes_max,
            )
            return None
        identity = (request.last_index, request.last_epoch, request.size_bytes)
        incoming = self._incoming
        if incoming is None or incoming[:3] != identity:
            incoming = self._incoming = _Incoming(*identity, bytearray())
        received = incoming.received
        if request.position == len(received):
            received += request.piece[: request.size_bytes - len(received)]
        return incoming

    def forget(self) -> None:
        """Drop an incomplete snapshot: the leader has changed."""
        self._incoming = None

    # --- an observer without a leader --------------------------------------------------------

    def ask_to_join(self) -> None:
        """Ask every voter for entries; the leader among them sends some.

        Those of the configuration are asked, too: the ones in the log may all have been replaced.
        """
        context = self._context
        known = context.voters | context.config.voters
        for voter in sorted(known - {context.config.node_id}):
            context.send(voter, JoinRequest(context.epoch))
        context.wake_within(0.25, 0.5)

    def show_leader(self, sender: int) -> None:
        """Tell a node that looks for the leader who that is: the log may have moved on."""
        context = self._context
        recorded = context.log.voters
        if recorded is None or context.leader_id is None or not context.has_live_leader:
            return
        leader = recorded.get(context.leader_id)
        if leader is not None and sender != leader.node_id:
            hint = LeaderHint(context.epoch, leader.node_id, leader.host, leader.port)
            context.send(sender, hint)

    def follow_hint(self, hint: LeaderHint) -> None:
        """Ask the leader of which another node speaks, unless one is heard."""
        context = self._context
        if not context.has_live_leader and hint.leader_id != context.config.node_id:
            context.send(hint.leader_id, JoinRequest(context.epoch))
