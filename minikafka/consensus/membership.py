"""Changes of the voter set, one voter at a time (KIP-853).

A leader appends the new set as a record, and it counts from then on, on every node that has it. Two
sets may only be in use at the same time if they follow each other, so a leader appends one

- when it has committed an entry of its own epoch. Before that it does not know whether the last set
  in its log is committed, or whether another leader's has taken its place;
- when the last set is committed: one change at a time;
- when a majority of the new set answers, or nothing could be committed any more. A voter with a
  new directory that is not admitted does not count;
- when every voter is able to read the record.

An observer is added when it has what is committed, so that the quorum does not have to wait for
it. Its directory is named in the record. It needs no admission (`minikafka.consensus.leader`): the
node was not a voter before, so no lost directory of it can have promised anything that counts. (It
may have been one earlier. Its removal was committed then, by a majority that shares a voter with
each majority of the set before; a candidate that relies on the old promise lacks the removal, and
that voter denies its vote.)

The configured voters are recorded as they are (`RecordVoters`) when all of them are admitted.
"""

from __future__ import annotations

from typing import assert_never

from .context import RaftContext
from .effects import Accepted, AddVoter, ChangeVoters, RecordVoters, Refused, RemoveVoter
from .leader import Leader
from .progress import Progress, Stage
from .roles import Role
from .voters import KRAFT_VERSION_MAX, Voter, VoterSet, VotersRefusal, Why

__all__ = ["Membership"]


class _Refusal(Exception):
    """The voters do not change."""

    def __init__(self, why: Why, details: str = "") -> None:
        message = f"{why.value}: {details}" if details else why.value
        super().__init__(message)
        self.refusal = VotersRefusal(why, message)


class Membership:
    """The part of a node that changes who votes."""

    __slots__ = ("_context", "_leader")

    def __init__(self, context: RaftContext, leader: Leader) -> None:
        self._context = context
        self._leader = leader

    def change(self, event: ChangeVoters) -> None:
        """Append another voter set, or refuse to."""
        context = self._context
        try:
            self._require_readiness()
            match event:
                case RecordVoters():
                    voters = self._configured(event)
                case AddVoter(voter=voter):
                    voters = self._with(voter)
                case RemoveVoter(node_id=node_id, directory_id=directory_id):
                    voters = self._without(node_id, directory_id)
                case _:
                    assert_never(event)
            self._require_majority(voters)
        except _Refusal as refused:
            context.emit(Refused(event.token, refused.refusal))
            return
        context.emit(Accepted(event.token, context.log.last_index + 1, context.epoch))
        self._leader.append_voters(voters)

    def _require_readiness(self) -> None:
        context = self._context
        if context.role is not Role.LEADER:
            raise _Refusal(Why.NOT_LEADER)
        if not self._leader.is_ready:
            raise _Refusal(Why.NOT_READY)
        if context.log.voters_index > context.commit_index:
            raise _Refusal(Why.PENDING)

    def _require_majority(self, voters: VoterSet) -> None:
        own = self._context.config.node_id
        answering = {
            node_id
            for node_id, one in self._leader.progress.items()
            if self._answers(one) and (one.is_admitted or voters.names(node_id, one.directory_id))
        }
        silent = voters.ids - answering - {own}
        if len(silent) > (len(voters.ids) - 1) // 2:
            names = ", ".join(map(str, sorted(silent)))
            raise _Refusal(Why.MINORITY, f"{names} are silent, or wait to be admitted")

    def _recorded(self) -> VoterSet:
        recorded = self._context.log.voters
        if recorded is None:
            raise _Refusal(Why.NOT_RECORDED)
        return recorded

    # --- one after the other -------------------------------------------------------------------

    def _configured(self, event: RecordVoters) -> VoterSet:
        context = self._context
        if context.log.voters is not None:
            raise _Refusal(Why.RECORDED)
        addresses = {node_id: (host, port) for node_id, host, port in event.addresses}
        voters: list[Voter] = []
        for node_id in sorted(context.voters):
            directory_id = context.directory_id
            if node_id != context.config.node_id:
                progress = self._leader.progress[node_id]
                self._require_readable(node_id, progress)
                directory_id = progress.directory_id if progress.is_admitted else b""
            if not directory_id or node_id not in addresses:
                raise _Refusal(Why.UNKNOWN, f"voter {node_id} is not admitted, or without address")
            voters.append(Voter(node_id, directory_id, *addresses[node_id]))
        for node_id, progress in self._leader.progress.items():
            if progress.is_observer:
                self._require_readable(node_id, progress)
        return VoterSet(voters)

    def _with(self, voter: Voter) -> VoterSet:
        recorded = self._recorded()
        node_id = voter.node_id
        if node_id in recorded.ids:
            known = ", ".join(map(str, sorted(recorded.ids)))
            raise _Refusal(Why.DUPLICATE, f"the voters are {known}")
        progress = self._leader.progress.get(node_id)
        if progress is None:
            raise _Refusal(Why.LAGGING, f"node {node_id} does not fetch the metadata log")
        if progress.directory_id != voter.directory_id:
            current = progress.directory_id.hex() or "that is not known yet"
            raise _Refusal(
                Why.LAGGING,
                f"node {node_id} has the data directory {current}, not {voter.directory_id.hex()}",
            )
        self._require_readable(node_id, progress)
        if not self._is_caught_up(progress):
            raise _Refusal(
                Why.LAGGING,
                f"node {node_id} has {progress.match_index} of {self._context.log.last_index} "
                "entries of the metadata log",
            )
        return recorded.plus(voter)

    def _without(self, node_id: int, directory_id: bytes) -> VoterSet:
        """Kafka asks for the directory, so that a voter that was replaced meanwhile stays."""
        recorded = self._recorded()
        own = self._context.config.node_id
        progress = self._leader.progress.get(node_id)
        current = b"" if progress is None else progress.directory_id
        if node_id == own:
            current = self._context.directory_id
        if node_id not in recorded.ids:
            known = ", ".join(map(str, sorted(recorded.ids)))
            raise _Refusal(Why.NOT_FOUND, f"the voters are {known}")
        if directory_id not in {current, recorded.directory_of(node_id)}:
            raise _Refusal(
                Why.NOT_FOUND,
                f"voter {node_id} has the data directory "
                f"{(current or recorded.directory_of(node_id)).hex()}, not {directory_id.hex()}",
            )
        if len(recorded.ids) == 1:
            raise _Refusal(Why.LAST)
        return recorded.minus(node_id)

    # --- what the other node is like -------------------------------------------------------------

    def _require_readable(self, node_id: int, progress: Progress) -> None:
        if progress.kraft_version_max < KRAFT_VERSION_MAX:
            raise _Refusal(
                Why.UNREADABLE, f"node {node_id} has not said that it knows kraft.version 1"
            )

    def _answers(self, progress: Progress) -> bool:
        silence_s = self._context.now - (progress.heard_at or 0.0)
        return silence_s < self._context.config.election_timeout_s

    def _is_caught_up(self, progress: Progress) -> bool:
        return (
            progress.stage is Stage.REPLICATE
            and progress.match_index >= self._context.commit_index
            and self._answers(progress)
        )
