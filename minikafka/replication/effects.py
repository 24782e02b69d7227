"""What a replica asks its shell to do. The shell carries out a list of effects in order."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.storage.disk import Buffer

__all__ = [
    "NO_LEADER",
    "AdvanceHighWatermark",
    "AdvanceLogStart",
    "AppendRecords",
    "BeginEpoch",
    "FollowHighWatermark",
    "FollowerEffect",
    "Freeze",
    "IsrMember",
    "LeaderEffect",
    "ProposeIsr",
    "RestartAt",
    "Thaw",
    "TruncateTo",
]

NO_LEADER: Final = -1
"""No broker, where a broker id is expected."""


class AdvanceHighWatermark(NamedTuple):
    """Records below ``offset`` are committed: show them to consumers, answer acks=all."""

    offset: int


class BeginEpoch(NamedTuple):
    """Remember where this leader's epoch begins: ``log.leader_epochs.assign(epoch, start)``.

    Before anything is served: followers find the point of divergence with it (KIP-101).
    """

    leader_epoch: int
    start_offset: int


class IsrMember(NamedTuple):
    """A member of a proposed ISR, and the broker epoch that its leader knows it by (KIP-903)."""

    broker_id: int
    broker_epoch: int


class ProposeIsr(NamedTuple):
    """Send this to the active controller; if it is refused or lost, call `isr_refused`.

    The same proposal is repeated until the metadata log brings a newer state: it is made for one
    partition epoch, so the controller can accept it only once.

    Attributes:
        leader_epoch: The proposer's.
        partition_epoch: Of the state that the proposal changes.
        isr: The new ISR.
        leader: The new leader. `NO_LEADER` changes nothing; the present leader withdraws everything
            that it proposed before, and gets a new partition epoch.
    """

    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    leader: int = NO_LEADER

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The proposed ISR."""
        return tuple(member.broker_id for member in self.isr)


class Freeze(NamedTuple):
    """Stop appending until `Thaw` or the end of this leadership: see `leader`, hand-over.

    New produce requests wait, for a second or so; what is already appended is still replicated,
    fetched and acknowledged.
    """

    next_leader: int


class Thaw(NamedTuple):
    """Append again, beginning with the waiting produce requests."""


LeaderEffect = AdvanceHighWatermark | BeginEpoch | ProposeIsr | Freeze | Thaw


class TruncateTo(NamedTuple):
    """Cut the log: the leader does not have what is at ``offset`` and above.

    ``is_below_high_watermark``: committed records are lost, which only an unclean election (or a
    broken disk) explains. Log it.
    """

    offset: int
    is_below_high_watermark: bool


class RestartAt(NamedTuple):
    """Remove everything and begin at ``offset``, high watermark included (KAFKA-9491).

    ``is_below_high_watermark``: as in `TruncateTo`; never set when the leader's retention was
    faster than this follower.
    """

    offset: int
    is_below_high_watermark: bool


class AppendRecords(NamedTuple):
    """Append the leader's batches unchanged; if that fails, call `append_failed` and stop."""

    records: Buffer


class FollowHighWatermark(NamedTuple):
    """Set the log's high watermark to the smaller of ``offset`` and the log's end.

    It goes back if the leader does not have what was committed (see `TruncateTo`).
    """

    offset: int


class AdvanceLogStart(NamedTuple):
    """Move the log start to the leader's (DeleteRecords, retention)."""

    offset: int


FollowerEffect = TruncateTo | RestartAt | AppendRecords | FollowHighWatermark | AdvanceLogStart
