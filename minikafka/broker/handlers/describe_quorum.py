"""DescribeQuorum 0-2: the metadata quorum: its leader, its voters, how far each has come (KIP-595).

The one topic that can be asked for is ``__cluster_metadata``, partition 0. The active controller
answers; what a replica last did is told in the controller's time (KIP-836). Version 2 names the
voters' internal listeners (KIP-853), which speak no Kafka; directories have no ids here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.controller import METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataResponse,
    ReplicaState,
    TopicDataResponse,
)
from ..quorum_reports import QuorumStatistics, ReplicaStatistics

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_LISTENER_NAME = "CONTROLLER"


async def handle(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe the quorum."""
    del context
    statistics = broker.quorum.statistics()
    now_ms = broker.clock.wall_ms()
    topics: list[TopicDataResponse] = []
    for topic in request.topics:
        partitions: list[PartitionDataResponse] = []
        for one in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and one.partition_index == 0:
                partitions.append(_describe(statistics, now_ms, broker.controller.is_active))
            else:
                partitions.append(_refused(one.partition_index))
        topics.append(TopicDataResponse(topic_name=topic.topic_name, partitions=partitions))
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=topics,
        nodes=_nodes(broker),
    )


def _describe(statistics: QuorumStatistics, now_ms: int, is_active: bool) -> PartitionDataResponse:
    return PartitionDataResponse(
        partition_index=0,
        error_code=ErrorCode.NONE if is_active else ErrorCode.NOT_LEADER_OR_FOLLOWER,
        error_message=None if is_active else "No controller is active at the moment.",
        leader_id=-1 if statistics.leader_id is None else statistics.leader_id,
        leader_epoch=statistics.epoch,
        high_watermark=statistics.high_watermark,
        current_voters=[_state(one, now_ms) for one in statistics.voters],
        observers=[_state(one, now_ms) for one in statistics.observers],
    )


def _state(replica: ReplicaStatistics, now_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=_when(replica.heard_ago_s, now_ms),
        last_caught_up_timestamp=_when(replica.caught_up_ago_s, now_ms),
    )


def _when(ago_s: float | None, now_ms: int) -> int:
    return -1 if ago_s is None else now_ms - int(ago_s * 1000)


def _refused(partition: int) -> PartitionDataResponse:
    return PartitionDataResponse(
        partition_index=partition,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=f"Only partition 0 of {METADATA_TOPIC} can be described.",
        leader_id=-1,
        leader_epoch=-1,
        high_watermark=-1,
        current_voters=[],
        observers=[],
    )


def _nodes(broker: Broker) -> list[Node]:
    return [
        Node(node_id=node_id, listeners=[Listener(name=_LISTENER_NAME, host=host, port=port)])
        for node_id, (host, port) in sorted(broker.topology.voters.items())
        if port
    ]
