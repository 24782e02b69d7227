"""The contents of a member's requests: what it says, and how a leader divides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.protocol.schema import MalformedMessageError
from minikafka_client.core.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    NO_GENERATION,
    Subscription,
    encode_assignment,
)
from minikafka_client.core.group_messages import GroupConfig
from minikafka_client.errors import KafkaError
from minikafka_client.types import TopicPartition


def join_request(
    config: GroupConfig,
    member_id: str,
    topics: Iterable[str],
    *,
    owned: frozenset[TopicPartition],
    generation_id: int,
    remembered: tuple[frozenset[TopicPartition], int],
) -> JoinGroupRequest:
    """What a member says: per assignor its subscription, what it owns now and what it had before.

    ``remembered`` (partitions, generation) is for assignors whose members join without owning
    anything and still get back what they had.
    """
    topics = tuple(topics)
    had, had_in = (owned, generation_id) if owned else remembered
    protocols: list[JoinGroupRequestProtocol] = []
    for assignor in config.assignors:
        subscription = Subscription(
            topics,
            owned_partitions=owned,
            generation_id=generation_id if owned else NO_GENERATION,
            user_data=assignor.user_data(had, had_in),
        )
        protocols.append(
            JoinGroupRequestProtocol(name=assignor.name, metadata=subscription.encode())
        )
    return JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=protocols,
    )


def read_subscriptions(
    config: GroupConfig, response: JoinGroupResponse
) -> dict[str, Subscription] | KafkaError:
    """What the members told their leader, by member id."""
    subscriptions: dict[str, Subscription] = {}
    for member in response.members:
        try:
            subscriptions[member.member_id] = Subscription.decode(
                member.metadata, group_instance_id=member.group_instance_id
            )
        except MalformedMessageError as error:
            return KafkaError(
                f"group {config.group_id!r}: the subscription of member {member.member_id!r} "
                f"cannot be read: {error}"
            )
    return subscriptions


def divide(
    config: GroupConfig,
    protocol_name: str | None,
    partition_counts: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
) -> list[SyncGroupRequestAssignment] | KafkaError:
    """What the leader decides, as SyncGroup wants it."""
    for assignor in config.assignors:
        if assignor.name == protocol_name:
            assigned = assignor.assign(partition_counts, subscriptions)
            return [
                SyncGroupRequestAssignment(
                    member_id=member, assignment=encode_assignment(partitions)
                )
                for member, partitions in assigned.items()
            ]
    return KafkaError(
        f"group {config.group_id!r} chose the assignor {protocol_name!r}, which this member "
        f"did not offer"
    )


def sync_request(
    config: GroupConfig,
    member_id: str,
    generation_id: int,
    protocol_name: str | None,
    assignments: list[SyncGroupRequestAssignment],
) -> SyncGroupRequest:
    """Ask for this member's assignment; the leader brings everybody's."""
    return SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=assignments,
    )


def heartbeat_request(config: GroupConfig, member_id: str, generation_id: int) -> HeartbeatRequest:
    """Say that this member is alive."""
    return HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: GroupConfig, member_id: str, reason: str) -> LeaveGroupRequest:
    """Say goodbye, in the shapes of all versions."""
    return LeaveGroupRequest(
        group_id=config.group_id,
        members=[MemberIdentity(member_id=member_id, reason=reason)],
        member_id=member_id,
    )
