"""Changes that partition leaders propose: another ISR, or another leader (AlterPartition, KIP-497).

A leader proposes an ISR and waits for the larger of both ISRs before it commits, until the change
is in its image. The response is a hint only; the new ISR must come from the image, where earlier
changes of settings (min.insync.replicas) have arrived, too: a leader that used an ISR of one before
it knew that two replicas are required would commit records that replicas which the controller
considers eligible do not have.

A proposal names the members with the broker epochs that they fetched with. A broker that has been
fenced, is shutting down or has registered again since then cannot join (KIP-841, KIP-903): it may
have lost records.

The same proposal with ``leader`` set hands the partition over; see `minikafka.metadata.elections`.
A leader whose disk failed does so, too, and leaves the ISR: it may have lost anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from ..replication import IsrMember
from .brokers import check_broker
from .decision import Decision, Refusal
from .image import MetadataImage
from .partition_change import BrokerAvailability, PartitionChanges, RequestedChange
from .records import NO_LEADER, PartitionRecord
from .replication_rules import ReplicationRules

__all__ = ["IsrProposal", "IsrResult", "alter_partitions"]


class IsrProposal(NamedTuple):
    """What a leader wants for one partition.

    Attributes:
        leader_epoch: the proposer's.
        partition_epoch: of the state that the proposal changes.
        in_sync_replicas: the new ISR, including the leader.
        leader: the new leader; NO_LEADER changes nothing, and the present leader withdraws every
            hand-over that was requested or proposed before.
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
    result: PartitionRecord | Refusal


def alter_partitions(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    proposals: Sequence[IsrProposal],
    defaults: ReplicationRules,
) -> Decision[list[IsrResult] | Refusal]:
    """Change ISRs and leaders as the leaders propose, each partition on its own.

    The consequences are part of the change: a reassignment whose replicas are all in sync is
    completed, and replicas that leave an ISR that has become too small are eligible leaders.

    Args:
        image: before the decision.
        broker_id: the proposer.
        broker_epoch: of the registration that it knows.
        proposals: at most one for each partition; of several the first counts.
        defaults: see `rules_of_topic`.

    Returns:
        A refusal of everything (BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH), or for each
        proposal the partition as it will be (perhaps unchanged) or one of

        - UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION;
        - NOT_CONTROLLER: the leader knows a newer state than this node, which therefore has been
          replaced as the active controller (KAFKA-14154);
        - FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION: the leader knows an older state;
        - INELIGIBLE_REPLICA: a member may not be in sync or lead;
        - INVALID_REQUEST: a proposal that no leader should send.
    """
    refusal = check_broker(image, broker_id, broker_epoch)
    if refusal is not None:
        return Decision([], refusal)
    changes = PartitionChanges(image.settings, BrokerAvailability.of(image), defaults)
    results: dict[tuple[bytes, int], IsrResult] = {}
    for proposal in proposals:
        key = (proposal.topic_id, proposal.partition)
        if key not in results:
            results[key] = IsrResult(*key, _alter(image, broker_id, proposal, changes))
    return Decision([*changes.records], list(results.values()))


def _alter(
    image: MetadataImage, broker_id: int, proposal: IsrProposal, changes: PartitionChanges
) -> PartitionRecord | Refusal:
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
        return changes.change(topic, partition, RequestedChange(in_sync_replicas=in_sync))
    return changes.change(
        topic,
        partition,
        RequestedChange(
            in_sync_replicas=in_sync,
            leader=proposal.leader,
            next_leader=NO_LEADER,
            unclean=frozenset({partition.leader} - set(in_sync)),
            has_new_partition_epoch=True,
        ),
    )


def _state_refusal(
    broker_id: int, proposal: IsrProposal, partition: PartitionRecord
) -> Refusal | None:
    """Refuse a proposal that was made on another state than the present one."""
    theirs = proposal.leader_epoch, proposal.partition_epoch
    ours = partition.leader_epoch, partition.partition_epoch
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


def _shape_refusal(proposal: IsrProposal, partition: PartitionRecord) -> Refusal | None:
    """Refuse an ISR that is impossible, whichever brokers are alive."""
    members = [member.broker_id for member in proposal.in_sync_replicas]
    chosen = set(members)
    if len(chosen) != len(members) or not chosen.issubset(partition.replicas):
        message = f"{members} does not name different replicas of {list(partition.replicas)}."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    leader = partition.leader if proposal.leader == NO_LEADER else proposal.leader
    if leader not in chosen:
        message = f"{members} must contain the leader, broker {leader}."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    return None


def _member_refusal(
    image: MetadataImage, proposal: IsrProposal, partition: PartitionRecord
) -> Refusal | None:
    """Refuse members that are fenced, have restarted, or are new and about to stop."""
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
