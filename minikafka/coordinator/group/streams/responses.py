"""Responses of StreamsGroupHeartbeat and StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import streams_group_describe, streams_group_heartbeat

from ..effects import NewTopic
from ..topics import Topics
from .assignor import NAME
from .internal_topics import Problem
from .member import StreamsMember
from .streams_group import StreamsGroup
from .tasks import Assignment, Tasks, grouped
from .topology import Subtopology

ACCEPTABLE_RECOVERY_LAG = 10_000
TASK_OFFSET_INTERVAL_MS = 60_000
"""Kafka's defaults; members report offsets of warm-up tasks by them, and there are none."""


class Refusal(Exception):
    """Ends the handling of a request with an error."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def heartbeat_refused(
    error: ErrorCode, message: str | None = None
) -> streams_group_heartbeat.Response:
    return streams_group_heartbeat.Response(error_code=error, error_message=message)


def heartbeat_accepted(
    member_id: str, member_epoch: int, heartbeat_interval_ms: int, problems: Iterable[Problem]
) -> streams_group_heartbeat.Response:
    return streams_group_heartbeat.Response(
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        acceptable_recovery_lag=ACCEPTABLE_RECOVERY_LAG,
        acceptable_recovery_lag_v1=ACCEPTABLE_RECOVERY_LAG,
        task_offset_interval_ms=TASK_OFFSET_INTERVAL_MS,
        status=[
            streams_group_heartbeat.Status(status_code=one.status, status_detail=one.detail)
            for one in problems
        ],
    )


def show_tasks(response: streams_group_heartbeat.Response, assigned: Assignment) -> None:
    """Tell the member which tasks it may have."""
    response.active_tasks = _task_ids(assigned.active)
    response.standby_tasks = _task_ids(assigned.standby)
    response.warmup_tasks = _task_ids(assigned.warmup)


def _task_ids(tasks: Tasks) -> list[streams_group_heartbeat.TaskIds]:
    return [
        streams_group_heartbeat.TaskIds(subtopology_id=one, partitions=indexes)
        for one, indexes in grouped(tasks)
    ]


def endpoints(
    group: StreamsGroup, topics: Topics
) -> list[streams_group_heartbeat.EndpointToPartitions]:
    """Where interactive queries find the partitions of each task."""
    return [
        streams_group_heartbeat.EndpointToPartitions(
            user_endpoint=streams_group_heartbeat.Endpoint(host=endpoint[0], port=endpoint[1]),
            active_partitions=_partitions(group, member.assigned.active, topics),
            standby_partitions=_partitions(group, member.assigned.standby, topics),
        )
        for member in group.members.values()
        if (endpoint := member.identity.endpoint) is not None
    ]


def _partitions(
    group: StreamsGroup, tasks: Tasks, topics: Topics
) -> list[streams_group_heartbeat.TopicPartition]:
    found: list[streams_group_heartbeat.TopicPartition] = []
    inputs = (
        {}
        if group.topology is None
        else {one.subtopology_id: one.inputs for one in group.topology.subtopologies}
    )
    for subtopology_id, indexes in grouped(tasks):
        for name in sorted(inputs.get(subtopology_id, ())):
            topic = topics.by_name(name)
            count = 0 if topic is None else topic.partition_count
            known = [index for index in indexes if index < count]
            if known:
                found.append(streams_group_heartbeat.TopicPartition(topic=name, partitions=known))
    return found


# --- describing ------------------------------------------------------------------------------


def not_described(
    group_id: str, error: ErrorCode, message: str | None = None
) -> streams_group_describe.DescribedGroup:
    return streams_group_describe.DescribedGroup(
        group_id=group_id, error_code=error, error_message=message
    )


def described(group: StreamsGroup) -> streams_group_describe.DescribedGroup:
    topology = group.topology
    return streams_group_describe.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None
        if topology is None
        else streams_group_describe.Topology(
            epoch=topology.epoch,
            subtopologies=[_described_subtopology(one) for one in topology.subtopologies],
        ),
        members=[
            _described_member(member, group.target(member.member_id))
            for member in group.members.values()
        ],
        assignor_name=NAME,
    )


def _described_subtopology(one: Subtopology) -> streams_group_describe.Subtopology:
    return streams_group_describe.Subtopology(
        subtopology_id=one.subtopology_id,
        source_topics=list(one.sources),
        repartition_sink_topics=list(one.sinks),
        state_changelog_topics=[_described_topic(topic) for topic in one.changelogs],
        repartition_source_topics=[_described_topic(topic) for topic in one.repartitions],
    )


def _described_topic(topic: NewTopic) -> streams_group_describe.TopicInfo:
    return streams_group_describe.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[
            streams_group_describe.KeyValue(key=key, value=value) for key, value in topic.configs
        ],
    )


def _described_member(member: StreamsMember, target: Assignment) -> streams_group_describe.Member:
    identity = member.identity
    endpoint = identity.endpoint
    return streams_group_describe.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=identity.instance_id,
        rack_id=identity.rack_id,
        client_id=identity.client_id,
        client_host=identity.client_host,
        topology_epoch=identity.topology_epoch,
        process_id=identity.process_id,
        user_endpoint=None
        if endpoint is None
        else streams_group_describe.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[
            streams_group_describe.KeyValue(key=key, value=value) for key, value in identity.tags
        ],
        assignment=_described_assignment(member.assigned),
        target_assignment=_described_assignment(target),
    )


def _described_assignment(assignment: Assignment) -> streams_group_describe.Assignment:
    active, standby, warmup = (
        [
            streams_group_describe.TaskIds(subtopology_id=one, partitions=indexes)
            for one, indexes in grouped(tasks)
        ]
        for _, tasks in assignment.by_role()
    )
    return streams_group_describe.Assignment(
        active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
    )
