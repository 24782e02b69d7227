"""Responses of ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_describe, consumer_group_heartbeat

from ..topics import Topics
from .consumer_group import ConsumerGroup
from .member import ConsumerMember
from .partitions import Partitions

_CONSUMER_MEMBER, _CLASSIC_MEMBER = 1, 0
"""The member types of ConsumerGroupDescribe v1 (KIP-1099)."""


class Refusal(Exception):
    """Ends the handling of a request with an error."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def heartbeat_refused(
    error: ErrorCode, message: str | None = None
) -> consumer_group_heartbeat.Response:
    return consumer_group_heartbeat.Response(
        error_code=error, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def heartbeat_accepted(
    member_id: str, member_epoch: int, heartbeat_interval_ms: int, assigned: Partitions | None
) -> consumer_group_heartbeat.Response:
    """``assigned`` is None if the member knows its assignment."""
    return consumer_group_heartbeat.Response(
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        assignment=None
        if assigned is None
        else consumer_group_heartbeat.Assignment(
            topic_partitions=[
                consumer_group_heartbeat.TopicPartitionsResponse(
                    topic_id=topic_id, partitions=sorted(indexes)
                )
                for topic_id, indexes in sorted(assigned.items())
            ]
        ),
    )


def described(
    group: ConsumerGroup, topics: Topics, default_assignor: str
) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(lambda _: True, default_assignor),
        members=[
            _described_member(member, group.target(member.member_id), topics)
            for member in group.members.values()
        ],
    )


def not_described(
    group_id: str, error: ErrorCode, message: str | None = None
) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _described_member(
    member: ConsumerMember, target: Partitions, topics: Topics
) -> consumer_group_describe.Member:
    subscription = member.subscription
    return consumer_group_describe.Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topics),
        subscribed_topic_regex=subscription.regex,
        assignment=_described_partitions(member.assigned, topics),
        target_assignment=_described_partitions(target, topics),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _described_partitions(
    partitions: Partitions, topics: Topics
) -> consumer_group_describe.Assignment:
    """Without topics that are deleted."""
    return consumer_group_describe.Assignment(
        topic_partitions=[
            consumer_group_describe.TopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes)
            )
            for topic_id, indexes in partitions.items()
            if (topic := topics.by_id(topic_id)) is not None
        ]
    )
