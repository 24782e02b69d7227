"""What leaders ask of the controller: another ISR, or another leader (AlterPartition, KIP-497).

A leader proposes an ISR and counts on nothing until the change is in its image: until then it waits
for the larger of both ISRs before it commits. It must take the answer as a hint only and the new
ISR from its image, where settings that were changed before (min.insync.replicas) have arrived too;
a leader that believed an ISR of one before it knows that two are needed now would commit what the
replicas that the controller still considers eligible do not have.

A proposal names the members with the broker epochs that they fetched with. Who is fenced, shutting
down or registered anew since then cannot join (KIP-841, KIP-903): it may have lost what it had.

The same proposal with ``leader`` set hands the partition over; see `minikafka.metadata.elections`.
A leader whose disk failed does that, too, and leaves the ISR with it: it may have lost anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .broker_epochs import check_broker
from .decision import Decision, Refusal
from .image import NO_LEADER, MetadataImage, PartitionImage
from .partition_change import BrokerStanding, PartitionChanges, Wish
from .replication_rules import ReplicationRules

__all__ = ["IsrMember", "IsrProposal", "IsrResult", "alter_partitions"]


class IsrMember(NamedTuple):
    """A replica, and the broker epoch that its leader knows it by."""

    broker_id: int
    broker_epoch: int


class IsrProposal(NamedTuple):
    """What a leader wants for one partition.

    Attributes:
        topic_id: 16 bytes.
        partition: its number.
        leader_epoch: the epoch that the proposer leads in.
        partition_epoch: of the state that the proposal changes.
        in_sync_replicas: the ISR as it shall be; it holds who shall lead from now on.
        leader: who shall lead from now on; NO_LEADER leaves that as it is, and the leader itself
            takes back every hand-over that was asked for or proposed before.
    """

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    in_sync_replicas: tuple[IsrMember, ...]
    leader: int = NO_LEADER


class IsrResult(NamedTuple):
    """The partition as it will be, or why it does not change."""

    topic_id: bytes
    partition: int
    result: PartitionImage | Refusal


def alter_partitions(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    proposals: Sequence[IsrProposal],
    defaults: ReplicationRules,
) -> Decision[list[IsrResult] | Refusal]:
    """Change ISRs and leaders as their leaders ask, each partition on its own.

    Whatever follows is part of the change: a reassignment whose replicas are all in sync now is
    over, and replicas that leave an ISR that has become too small are eligible leaders.

    Args:
        image: as it is.
        broker_id: who asks.
        broker_epoch: of the registration that the asking process knows.
        proposals: at most one for each partition; of several the first counts.
        defaults: see `rules_of_topic`.

    Returns:
        A refusal of everything (BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH), or for each
        proposal the partition as it will be (as it is, when that is what was asked for) or one of

        - UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION;
        - NOT_CONTROLLER: the leader knows a newer state than this node, which therefore is not the
          active controller any more (KAFKA-14154);
        - FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION: the leader knows an older state;
        - INELIGIBLE_REPLICA: a member may not be in sync or lead;
        - INVALID_REQUEST: what no leader should send.
    """
    refusal = check_broker(image, broker_id, broker_epoch)
    if refusal is not None:
        return Decision([], refusal)
    changes = PartitionChanges(image.settings, BrokerStanding.of(image), defaults)
    results: dict[tuple[bytes, int], IsrResult] = {}
    for proposal in proposals:
        key = (proposal.topic_id, proposal.partition)
        if key not in results:
            results[key] = IsrResult(*key, _alter(image, broker_id, proposal, changes))
    return Decision([*changes.records], list(results.values()))


def _alter(
    image: MetadataImage, broker_id: int, proposal: IsrProposal, changes: PartitionChanges
) -> PartitionImage | Refusal:
    topic = image.topics_by_id.get(proposal.topic_id)
    partition = image.partition(proposal.topic_id, proposal.partition)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {proposal.topic_id.hex()}."
        )
    if partition is None:
        message = f"Topic '{topic.name}' has no partition {proposal.partition}."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    refusal = (
        _state_refusal(broker_id, proposal, partition)
        or _shape_refusal(proposal, partition)
        or _member_refusal(image, proposal, partition)
    )
    if refusal is not None:
        code, message = refusal
        return Refusal(code, f"{topic.name}-{partition.partition}: {message}")
    in_sync = tuple(member.broker_id for member in proposal.in_sync_replicas)
    if proposal.leader == NO_LEADER:
        return changes.change(topic, partition, Wish(in_sync_replicas=in_sync))
    return changes.change(
        topic,
        partition,
        Wish(
            in_sync_replicas=in_sync,
            leader=proposal.leader,
            next_leader=NO_LEADER,
            unclean=frozenset({partition.leader} - set(in_sync)),
            has_new_partition_epoch=True,
        ),
    )


def _state_refusal(
    broker_id: int, proposal: IsrProposal, partition: PartitionImage
) -> Refusal | None:
    """Refuse what was proposed on another state than the present one."""
    theirs, ours = proposal[2:4], partition[4:6]
    epochs = (
        f"leader epoch {theirs[0]} and partition epoch {theirs[1]}, not {ours[0]} and {ours[1]}"
    )
    if theirs[0] > ours[0] or theirs[1] > ours[1]:
        message = f"the leader knows {epochs}: this controller is not the active one."
        return Refusal(ErrorCode.NOT_CONTROLLER, message)
    if theirs[0] < ours[0]:
        return Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"the leader knows {epochs}.")
    if broker_id != partition.leader:
        message = f"broker {broker_id} is not the leader, which is {partition.leader}."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    if theirs[1] < ours[1]:
        return Refusal(ErrorCode.INVALID_UPDATE_VERSION, f"the leader knows {epochs}.")
    return None


def _shape_refusal(proposal: IsrProposal, partition: PartitionImage) -> Refusal | None:
    """Refuse an ISR that could not be one whoever is alive."""
    members = [member.broker_id for member in proposal.in_sync_replicas]
    chosen = set(members)
    if len(chosen) != len(members) or not chosen.issubset(partition.replicas):
        message = f"{members} does not name different replicas of {list(partition.replicas)}."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    leader = partition.leader if proposal.leader == NO_LEADER else proposal.leader
    if leader not in chosen:
        message = f"{members} has to hold broker {leader}, which is to lead."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    return None


def _member_refusal(
    image: MetadataImage, proposal: IsrProposal, partition: PartitionImage
) -> Refusal | None:
    """Refuse members that are fenced, other processes by now, or new and about to stop."""
    for broker_id, broker_epoch in proposal.in_sync_replicas:
        refusal = check_broker(image, broker_id, broker_epoch)
        if refusal is not None:
            return Refusal(ErrorCode.INELIGIBLE_REPLICA, refusal.message)
        must_be_active = broker_id == proposal.leader != partition.leader
        must_be_active |= broker_id not in partition.in_sync_replicas
        if image.is_fenced(broker_id) or (must_be_active and not image.is_active(broker_id)):
            message = f"broker {broker_id} is fenced or shutting down."
            return Refusal(ErrorCode.INELIGIBLE_REPLICA, message)
    return None
