"""A leader: appends, sends, counts, commits, and steps down when it loses its majority.

It also admits voters whose data directory is new. Until then neither what they acknowledge nor
that they are heard counts. When the leader of epoch e has first heard from such a directory D, it
appends an empty entry at an index A. It admits D once A is committed by voters that are admitted,
and D has stored everything up to A. Then nothing that the voter's lost directory had promised can
still matter:

- It may have voted in an epoch above e. A candidate that had its vote asked for it before A was
  appended, so that candidate's log lacks A. Of any majority that elects it, at least one other
  voter belongs to the majority that acknowledged A in e. If that one voted first, it would not
  have taken A in e; if it took A first, it denies its vote. So no such candidate has won or will.
- It may have voted in e, for this leader or for another candidate. The voter votes for this leader
  when it is admitted, and so for no other in e.
- It may have acknowledged entries. Those of epochs above e do not exist, as there is no leader of
  one that was elected before A was appended. All the others that are committed are in this
  leader's log before A.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from .context import RaftContext
from .effects import Accepted, PersistEntries, Propose, Refused
from .log import RaftLog
from .messages import (
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    Entry,
    SnapshotRequest,
    SnapshotResponse,
)
from .progress import Progress, Stage
from .roles import Role
from .voters import VoterSet, encode_voters

__all__ = ["Leader"]

logger = logging.getLogger(__name__)


class Leader:
    """The part of a node that leads.

    Args:
        context: shared with the other parts.
        read_snapshot: returns the bytes of the stored snapshot.

    Attributes:
        progress: of the other nodes; empty unless this node leads.
        first_index: of its own epoch, the empty entry.
    """

    __slots__ = (
        "_awake_since",
        "_context",
        "_heartbeat_at",
        "_read_snapshot",
        "_snapshot",
        "_transfer_to",
        "_transfer_until",
        "first_index",
        "progress",
    )

    def __init__(self, context: RaftContext, read_snapshot: Callable[[], bytes]) -> None:
        self._context = context
        self._read_snapshot = read_snapshot
        self._snapshot = (0, b"")
        self._heartbeat_at = 0.0
        self._awake_since = 0.0
        self._transfer_to: int | None = None
        self._transfer_until = 0.0
        self.progress: dict[int, Progress] = {}
        self.first_index = 0

    @property
    def _log(self) -> RaftLog:
        return self._context.log

    @property
    def is_ready(self) -> bool:
        """Whether proposals are accepted: everything before this leader's epoch is committed."""
        context = self._context
        return (
            context.role is Role.LEADER
            and context.commit_index >= self.first_index
            and self._transfer_to is None
        )

    # --- beginning and end -------------------------------------------------------------------

    def begin(self) -> None:
        """Become the leader: a majority voted for this node."""
        context = self._context
        config = context.config
        context.change(Role.LEADER, leader_id=config.node_id)
        context.wake_at = None
        self._transfer_to = None
        for voter in sorted(context.voters - {config.node_id}):
            self._add(voter, is_observer=False)
        self._heartbeat_at = context.now + config.heartbeat_s
        self.first_index = self._log.last_index + 1
        self._append(b"")

    def _add(self, node_id: int, *, is_observer: bool) -> Progress:
        config = self._context.config
        progress = self.progress[node_id] = Progress(
            self._log.last_index + 1, config.appends_in_flight_max, is_observer=is_observer
        )
        progress.heard_at = self._context.now
        return progress

    def forget(self) -> None:
        """This node does not lead, or no longer."""
        self.progress.clear()
        self._snapshot = (0, b"")
        self._transfer_to = None

    # --- appending and committing ------------------------------------------------------------

    def propose(self, proposal: Propose) -> None:
        """Append a proposal, or refuse it."""
        context = self._context
        if not self.is_ready or proposal.epoch != context.epoch:
            context.emit(Refused(proposal.token))
            return
        context.emit(Accepted(proposal.token, self._log.last_index + 1, context.epoch))
        self._append(proposal.payload)

    def _append(self, payload: bytes) -> None:
        """Followers may store an entry before the leader does; each counts once it has."""
        entry = Entry(self._context.epoch, payload)
        index = self._log.last_index + 1
        self._log.append((entry,))
        if self._log.voters_index == index:
            self._follow_voters()
        for node_id, progress in self.progress.items():
            self._send_entries(node_id, progress)
        self._context.emit(PersistEntries(index, (entry,)))
        # Later effects happen after that, so this node has stored the entry by then.
        self._commit_what_a_majority_has()

    def _commit_what_a_majority_has(self) -> None:
        """Count replicas of entries of this epoch only.

        An older one that a majority has may still be overwritten by a leader whose log ends in a
        later epoch.
        """
        context = self._context
        stored = [one.match_index if one.is_counted else 0 for one in self.progress.values()]
        if context.is_counted:
            stored.append(self._log.last_index)
        stored.sort(reverse=True)
        index = stored[context.majority - 1]
        if index > context.commit_index and self._log.epoch_at(index) == context.epoch:
            context.commit(index)
            for node_id, progress in self.progress.items():
                if not self._send_entries(node_id, progress):
                    self._send_heartbeat(node_id, progress)
            if not context.is_counted and self._log.voters_index <= index:
                self._retire()

    # --- voters that come and go -------------------------------------------------------------

    def append_voters(self, voters: VoterSet) -> int:
        """Append a voter set, which counts from now on; returns its index."""
        index = self._log.last_index + 1
        self._append(encode_voters(voters))
        return index

    def _follow_voters(self) -> None:
        """The log has another voter set: count and hear its voters, and no others."""
        context = self._context
        voters = context.voters
        for node_id in sorted(voters - self.progress.keys() - {context.config.node_id}):
            self._add(node_id, is_observer=False)
        for node_id, one in self.progress.items():
            one.is_observer = node_id not in voters
            one.is_admitted |= self._is_named(node_id, one.directory_id)
        if self._transfer_to not in voters:
            self._transfer_to = None
        if self._heartbeat_at <= context.now:  # this leader was alone and sent no heartbeats
            self._heartbeat_at = context.now + context.config.heartbeat_s

    def _is_named(self, node_id: int, directory_id: bytes) -> bool:
        """Whether a directory needs no admission, because the voter was added with it."""
        recorded = self._log.voters
        return recorded is not None and recorded.names(node_id, directory_id)

    def _retire(self) -> None:
        """Step down: this node has been removed from the voters, and that is committed."""
        context = self._context
        successor = self.best_successor()
        if successor is not None:
            context.send(successor, CampaignRequest(context.epoch))
        logger.info("metadata quorum: this node is no longer a voter, and leads no longer")
        self.forget()
        context.follow(context.epoch, None)

    # --- sending -----------------------------------------------------------------------------

    def _send_entries(self, node_id: int, progress: Progress) -> bool:
        """Send what a node lacks and may receive now; False when that is nothing."""
        log = self._log
        if progress.stage is not Stage.SNAPSHOT and progress.next_index <= log.base_index:
            progress.send_snapshot(log.base_index)
        if progress.stage is Stage.SNAPSHOT:
            return self._send_snapshot_piece(node_id, progress)
        has_sent = False
        while progress.may_send() and progress.next_index <= log.last_index:
            entries = log.entries(progress.next_index, self._context.config.append_size_bytes_max)
            self._send_append(node_id, progress, entries)
            has_sent = True
        return has_sent

    def _send_append(
        self, node_id: int, progress: Progress, entries: tuple[Entry, ...] = ()
    ) -> None:
        context = self._context
        previous = progress.next_index - 1
        context.send(
            node_id,
            AppendRequest(
                context.epoch,
                previous,
                self._log.epoch_at(previous),
                context.commit_index,
                entries,
                self._admitted_directory(progress),
                self._log.voters is not None,
            ),
        )
        progress.sent(previous + len(entries))

    # --- voters with new directories ---------------------------------------------------------

    def _welcome_newcomers(self) -> None:
        """Append the entry after which new directories may be admitted; see the module's text.

        Called with heartbeats, so that two processes that use one node id cannot fill the log.
        """
        newcomers = [
            (node_id, one)
            for node_id, one in self.progress.items()
            if not (one.is_observer or one.is_admitted) and one.newcomer_id != one.directory_id
        ]
        for node_id, one in newcomers:
            one.newcomer_id = one.directory_id
            one.newcomer_index = self._log.last_index + 1
            one.has_newcomer_stored = False
            logger.info(
                "metadata quorum: voter %d has a new data directory; it is admitted when it has "
                "caught up, and the other voters are a majority",
                node_id,
            )
        if newcomers:
            self._append(b"")

    def _admitted_directory(self, progress: Progress) -> bytes:
        is_committed = progress.newcomer_index <= self._context.commit_index
        if progress.is_admitted or not (progress.has_newcomer_stored and is_committed):
            return b""
        return progress.newcomer_id

    def _send_heartbeat(self, node_id: int, progress: Progress) -> None:
        """Send no entries; the pieces of a snapshot are heartbeats themselves."""
        if progress.stage is Stage.REPLICATE or (
            progress.stage is Stage.PROBE and not progress.is_waiting
        ):
            self._send_append(node_id, progress)

    def _send_snapshot_piece(self, node_id: int, progress: Progress) -> bool:
        if not progress.may_send():
            return False
        context = self._context
        log = self._log
        if progress.snapshot_index != log.base_index:
            progress.send_snapshot(log.base_index)  # a newer one has replaced it
        if self._snapshot[0] != log.base_index:
            self._snapshot = (log.base_index, self._read_snapshot())
        snapshot = self._snapshot[1]
        position = progress.snapshot_position
        end = position + context.config.snapshot_piece_size_bytes
        context.send(
            node_id,
            SnapshotRequest(
                context.epoch,
                log.base_index,
                log.base_epoch,
                len(snapshot),
                position,
                snapshot[position:end],
                self._log.voters is not None,
            ),
        )
        progress.is_waiting = True
        return True

    # --- answers -----------------------------------------------------------------------------

    def _heard(self, sender: int) -> Progress | None:
        progress = self.progress.get(sender)
        if progress is not None:
            progress.heard_at = self._context.now
        return progress

    def handle_append_response(self, sender: int, response: AppendResponse) -> None:
        """A node reports what it has stored, or that the logs differ."""
        progress = self._heard(sender)
        if progress is None:
            return
        progress.kraft_version_max = response.kraft_version_max
        progress.answered_from(
            response.directory_id,
            is_admitted=response.is_admitted or self._is_named(sender, response.directory_id),
        )
        if response.last_index > self._log.last_index:
            return
        if response.is_accepted:
            progress.accepted(response.last_index)
            if response.last_index >= progress.newcomer_index:
                progress.has_newcomer_stored = response.directory_id == progress.newcomer_id
            self._commit_what_a_majority_has()
            if self._context.role is not Role.LEADER:
                return  # it has retired
        elif progress.stage is Stage.SNAPSHOT or not self._step_back(sender, progress, response):
            return  # an outdated answer
        self._send_entries(sender, progress)
        if progress.match_index == self._log.last_index:
            progress.caught_up_at = self._context.now
            if sender == self._transfer_to:
                self._context.send(sender, CampaignRequest(self._context.epoch))
        if all(one.stage is not Stage.SNAPSHOT for one in self.progress.values()):
            self._snapshot = (0, b"")

    def _step_back(self, sender: int, progress: Progress, response: AppendResponse) -> bool:
        """The logs differ at the entry before those that were sent; False if that is outdated."""
        previous = response.previous_index
        if progress.stage is Stage.PROBE:
            if previous != progress.next_index - 1:
                return False
        elif previous < progress.match_index:
            return False
        if response.last_index < progress.match_index:
            logger.error(
                "node %d had stored the quorum's log up to %d and now has it up to %d: its disk "
                "lost synced data, or its data directory was replaced",
                sender,
                progress.match_index,
                response.last_index,
            )
            progress.match_index = response.last_index
        index = response.last_index
        if index >= self._log.base_index:
            index, _ = self._log.last_not_after(index, response.last_epoch)
        progress.probe(max(min(index, previous - 1), progress.match_index) + 1)
        return True

    def handle_snapshot_response(self, sender: int, response: SnapshotResponse) -> None:
        """A node received a piece of the snapshot; send the next."""
        progress = self._heard(sender)
        if (
            progress is None
            or progress.stage is not Stage.SNAPSHOT
            or response.last_index != progress.snapshot_index
        ):
            return
        progress.snapshot_position = response.position
        progress.is_waiting = False
        self._send_snapshot_piece(sender, progress)

    def handle_join(self, sender: int) -> None:
        """Send entries to an observer."""
        context = self._context
        config = context.config
        if sender in context.voters:
            return
        progress = self.progress.get(sender)
        if progress is None:
            observer_count = sum(one.is_observer for one in self.progress.values())
            if observer_count >= config.observers_max:
                logger.error(
                    "node %d cannot observe the quorum: it has %d observers, the most allowed",
                    sender,
                    observer_count,
                )
                return
            progress = self._add(sender, is_observer=True)
        else:  # it had lost its leader, and with it what was in flight
            progress.heard_at = context.now
            progress.probe(progress.match_index + 1)
        if len(self.progress) == 1:  # this leader was alone and sent no heartbeats
            self._heartbeat_at = context.now + config.heartbeat_s
        if not self._send_entries(sender, progress):
            self._send_heartbeat(sender, progress)

    def peer_lost(self, node_id: int) -> None:
        """A node's process has died: nothing in flight to it will arrive."""
        progress = self.progress.get(node_id)
        if progress is None:
            return
        if progress.is_observer:
            del self.progress[node_id]
        elif progress.stage is Stage.REPLICATE:
            progress.probe(progress.match_index + 1)

    # --- transfer of leadership --------------------------------------------------------------

    def transfer(self, node_id: int | None) -> None:
        """Refuse further proposals, bring a voter up to date, and let it take over."""
        context = self._context
        if node_id is None:
            node_id = self.best_successor()
        progress = self.progress.get(node_id) if node_id is not None else None
        if node_id is None or progress is None or not progress.is_counted:
            return
        self._transfer_to = node_id
        self._transfer_until = context.now + context.config.election_timeout_s
        if progress.match_index == self._log.last_index:
            context.send(node_id, CampaignRequest(context.epoch))

    def best_successor(self) -> int | None:
        """The live voter with the longest log."""
        context = self._context
        candidates = [
            (-progress.match_index, node_id)
            for node_id, progress in self.progress.items()
            if progress.is_counted
            and node_id not in context.lost_peers
            and self._is_heard(progress)
        ]
        return min(candidates)[1] if candidates else None

    # --- time --------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When `expire` has something to do; never for a leader without followers."""
        return self._heartbeat_at if self.progress else None

    def _is_heard(self, progress: Progress) -> bool:
        context = self._context
        heard_at = progress.heard_at or 0.0
        return heard_at > context.now - context.config.election_timeout_s

    def expire(self) -> bool:
        """Send heartbeats; False when a majority is silent and this leader has to step down."""
        context = self._context
        config = context.config
        if context.now < self._heartbeat_at or not self.progress:
            return True
        heard = [one for one in self.progress.values() if self._is_heard(one)]
        if context.is_counted + sum(one.is_counted for one in heard) < context.majority:
            return False
        self._welcome_newcomers()
        if context.now - self._heartbeat_at >= config.election_timeout_s:
            self._awake_since = context.now  # it stood still itself, and could hear nobody
        silent_since = context.now - config.observer_silence_s
        for node_id, progress in list(self.progress.items()):
            heard_at = max(progress.heard_at or 0.0, self._awake_since)
            if progress.is_observer and heard_at <= silent_since:
                del self.progress[node_id]
                continue
            if progress.stage is not Stage.REPLICATE:
                progress.is_waiting = False  # what was in flight may have been lost
            if not self._send_entries(node_id, progress):
                self._send_heartbeat(node_id, progress)
        if context.now >= self._transfer_until:
            self._transfer_to = None
        self._heartbeat_at = context.now + config.heartbeat_s
        return True
