"""DescribeQuorum 0-2: the metadata quorum, its leader and the progress of its voters (KIP-595).

The voters are those of the configuration, or those that the metadata log records (``kraft.version``
1, KIP-853). Only ``__cluster_metadata``, partition 0, can be described. The active controller
answers; times are on its clock (KIP-836). Version 2 has the voters' internal listeners (KIP-853),
which do not speak Kafka's protocol, and the ids of the data directories, all zero where one is not
known. A voter whose new directory is not admitted yet is among the voters without a directory, and
among the observers with the new one: in KIP-853's words a voter is a node together with its
directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.topics import METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_quorum
from ..quorum.reports import QuorumStatistics, ReplicaStatistics
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_LISTENER_NAME = "CONTROLLER"


async def handle(
    broker: Broker, context: RequestContext, request: describe_quorum.Request
) -> describe_quorum.Response:
    del context
    statistics = broker.quorum.statistics()
    now_ms = broker.clock.wall_ms()
    topics: list[describe_quorum.TopicDataResponse] = []
    pace = Pace(broker.clock.monotonic)
    async for topic in pace.each(request.topics):
        partitions: list[describe_quorum.PartitionDataResponse] = []
        async for one in pace.each(topic.partitions):
            if topic.topic_name == METADATA_TOPIC and one.partition_index == 0:
                partitions.append(_describe(statistics, now_ms, broker.controller.is_active))
            else:
                partitions.append(_refused(one.partition_index))
        topics.append(
            describe_quorum.TopicDataResponse(topic_name=topic.topic_name, partitions=partitions)
        )
    return describe_quorum.Response(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=topics,
        nodes=_nodes(broker),
    )


def _describe(
    statistics: QuorumStatistics, now_ms: int, is_active: bool
) -> describe_quorum.PartitionDataResponse:
    return describe_quorum.PartitionDataResponse(
        partition_index=0,
        error_code=ErrorCode.NONE if is_active else ErrorCode.NOT_LEADER_OR_FOLLOWER,
        error_message=None if is_active else "No controller is active at the moment.",
        leader_id=-1 if statistics.leader_id is None else statistics.leader_id,
        leader_epoch=statistics.epoch,
        high_watermark=statistics.high_watermark,
        current_voters=[
            _state(one if one.is_admitted else one._replace(directory_id=b""), now_ms)
            for one in statistics.voters
        ],
        observers=[
            _state(one, now_ms)
            for one in (*statistics.voters, *statistics.observers)
            if one in statistics.observers or not one.is_admitted
        ],
    )


def _state(replica: ReplicaStatistics, now_ms: int) -> describe_quorum.ReplicaState:
    return describe_quorum.ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id or bytes(16),
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=_when(replica.heard_ago_s, now_ms),
        last_caught_up_timestamp=_when(replica.caught_up_ago_s, now_ms),
    )


def _when(ago_s: float | None, now_ms: int) -> int:
    return -1 if ago_s is None else now_ms - int(ago_s * 1000)


def _refused(partition: int) -> describe_quorum.PartitionDataResponse:
    return describe_quorum.PartitionDataResponse(
        partition_index=partition,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=f"Only partition 0 of {METADATA_TOPIC} can be described.",
        leader_id=-1,
        leader_epoch=-1,
        high_watermark=-1,
        current_voters=[],
        observers=[],
    )


def _nodes(broker: Broker) -> list[describe_quorum.Node]:
    return [
        describe_quorum.Node(
            node_id=node_id,
            listeners=[describe_quorum.Listener(name=_LISTENER_NAME, host=host, port=port)],
        )
        for node_id, (host, port) in sorted(broker.node.topology.voters.items())
        if port
    ]
