"""What the quorum reports: errors, statistics, and what was stored at the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ...consensus.progress import Progress
from ...consensus.voters import VoterSet, VotersRefusal, Why
from ...protocol.errors import ErrorCode
from .change_error import ChangeError


class NotControllerError(ChangeError):
    """This node does not lead, or not yet: nothing happened. Ask ``leader_id``, if one is known."""

    def __init__(self, leader_id: int | None) -> None:
        known = "no leader is known" if leader_id is None else f"node {leader_id} does"
        super().__init__(
            ErrorCode.NOT_CONTROLLER, f"this node does not lead the metadata quorum; {known}"
        )
        self.leader_id = leader_id


class ProposalLostError(ChangeError):
    """This node was deposed before the proposal was committed: it may still take effect, or not."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.REQUEST_TIMED_OUT,
            "the controller changed meanwhile; the outcome of the change is unknown",
        )


class ProposalTooLargeError(ChangeError):
    """A decision that fits into no entry of the log: nothing happened."""

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(
            ErrorCode.POLICY_VIOLATION,
            f"one change of the metadata may have {size_bytes_max} bytes, this one has "
            f"{size_bytes}; make it in several steps",
        )


_CODES: Final = {
    Why.NOT_LEADER: ErrorCode.NOT_CONTROLLER,
    Why.NOT_RECORDED: ErrorCode.UNSUPPORTED_VERSION,
    Why.DUPLICATE: ErrorCode.DUPLICATE_VOTER,
    Why.NOT_FOUND: ErrorCode.VOTER_NOT_FOUND,
    Why.LAST: ErrorCode.INVALID_REQUEST,
    Why.UNREADABLE: ErrorCode.INVALID_REQUEST,
}


class VotersRefusedError(ChangeError):
    """The voters did not change; ``refusal`` says why."""

    def __init__(self, refusal: VotersRefusal) -> None:
        # As in Kafka, what may be possible later is a time-out.
        code = _CODES.get(refusal.why, ErrorCode.REQUEST_TIMED_OUT)
        super().__init__(
            code, f"The voters of the metadata quorum did not change: {refusal.message}."
        )
        self.refusal = refusal


class StoredEntries(NamedTuple):
    """What a node knows to be committed when it starts.

    Attributes:
        snapshot: payloads of the snapshot, of everything up to ``snapshot_index``.
        snapshot_index: 0 when there is none.
        entries: (index, payload) of those that follow; those of a new leader are left out.
    """

    snapshot: list[bytes]
    snapshot_index: int
    entries: Iterator[tuple[int, bytes]]


class ReplicaStatistics(NamedTuple):
    """One replica of the log, as the leader sees it (DescribeQuorum).

    Attributes:
        node_id: whose.
        log_end_offset: the index behind its last stored entry, -1 when that is not known.
        heard_ago_s: how long ago it was last in contact; None when never, or unknown here.
        caught_up_ago_s: how long ago it last had everything; None as above.
        directory_id: of its data directory; empty when that is not known.
        is_admitted: False for a voter with a new data directory, until a leader has admitted it.
    """

    node_id: int
    log_end_offset: int
    heard_ago_s: float | None
    caught_up_ago_s: float | None
    directory_id: bytes = b""
    is_admitted: bool = True


class QuorumStatistics(NamedTuple):
    """What DescribeQuorum answers; only the leader knows about the others.

    ``high_watermark`` is the index behind the last committed entry.
    """

    leader_id: int | None
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaStatistics, ...]
    observers: tuple[ReplicaStatistics, ...]


def replica_statistics(
    voter_ids: frozenset[int],
    recorded: VoterSet | None,
    progress: Mapping[int, Progress],
    own: ReplicaStatistics | None,
    now: float,
) -> tuple[tuple[ReplicaStatistics, ...], tuple[ReplicaStatistics, ...]]:
    """(voters, observers) by node id; `progress` is empty on a node that does not lead.

    Of a voter that has not answered, the directory is known with which it was recorded.
    """
    known = {own.node_id: own} if own is not None else {}
    for node_id, one in progress.items():
        known[node_id] = ReplicaStatistics(
            node_id,
            one.match_index + 1,
            None if one.heard_at is None else now - one.heard_at,
            None if one.caught_up_at is None else now - one.caught_up_at,
            one.directory_id,
            one.is_admitted,
        )
    voters: list[ReplicaStatistics] = []
    for voter in sorted(voter_ids):
        replica = known.get(voter, ReplicaStatistics(voter, -1, None, None))
        if not replica.directory_id and recorded is not None:
            replica = replica._replace(directory_id=recorded.directory_of(voter))
        voters.append(replica)
    observers = (
        known[node_id]._replace(is_admitted=True)  # it is not waiting for that
        for node_id in sorted(known.keys() - voter_ids)
    )
    return tuple(voters), tuple(observers)
