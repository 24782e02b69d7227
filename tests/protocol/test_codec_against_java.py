"""What the Java client of Kafka 4.4 writes, where kio does not know the version.

The bytes were written by the message classes of kafka-clients 4.4.0.
"""

from typing import Any

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    api_versions,
    delete_groups,
    streams_group_describe,
    streams_group_heartbeat,
    txn_offset_commit,
)
from minikafka.protocol.messages import (
    streams_group_topology_description_update as topology_description_update,
)
from minikafka.protocol.schema import Message

TOPIC_ID = bytes(range(1, 17))

_ONE_TASK = streams_group_describe.Assignment(
    active_tasks=[streams_group_describe.TaskIds(subtopology_id="0", partitions=[1])],
    standby_tasks=[],
    warmup_tasks=[],
)
_NODE = topology_description_update.TopologyDescriptionNode(
    name="n", node_type=1, source_topics=["s"], sink_topic=None, stores=["k"], successors=[]
)


def _streams_heartbeat_response(**values: Any) -> streams_group_heartbeat.Response:
    return streams_group_heartbeat.Response(
        throttle_time_ms=1,
        member_id="m",
        member_epoch=3,
        heartbeat_interval_ms=5_000,
        task_offset_interval_ms=60_000,
        status=[streams_group_heartbeat.Status(status_code=3, status_detail="d")],
        active_tasks=[streams_group_heartbeat.TaskIds(subtopology_id="0", partitions=[1])],
        standby_tasks=[],
        warmup_tasks=[],
        endpoint_information_epoch=2,
        partitions_by_user_endpoint=[
            streams_group_heartbeat.EndpointToPartitions(
                user_endpoint=streams_group_heartbeat.Endpoint(host="h", port=40_000),
                active_partitions=[
                    streams_group_heartbeat.TopicPartition(topic="s", partitions=[1])
                ],
                standby_partitions=[],
            )
        ],
        **values,
    )


WRITTEN_BY_JAVA: list[tuple[Message, int, str]] = [
    (
        api_versions.Request(client_software_name="java", client_software_version="4.4.0"),
        5,
        "056a61766106342e342e3000ffffffff00",
    ),
    (
        api_versions.Request(
            client_software_name="java",
            client_software_version="4.4.0",
            cluster_id="c1",
            node_id=7,
        ),
        5,
        "056a61766106342e342e300363310000000700",
    ),
    (
        api_versions.Response(
            error_code=ErrorCode.REBOOTSTRAP_REQUIRED,
            api_keys=[api_versions.ApiVersion(api_key=18, min_version=0, max_version=5)],
            throttle_time_ms=3,
            finalized_features_epoch=9,
        ),
        5,
        "00810200120000000500000000030101080000000000000009",
    ),
    (
        txn_offset_commit.Request(
            transactional_id="t",
            group_id="g",
            producer_id=5,
            producer_epoch=2,
            generation_id=3,
            member_id="m",
            group_instance_id="i",
            topics=[
                txn_offset_commit.RequestTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        txn_offset_commit.RequestPartition(
                            partition_index=1,
                            committed_offset=42,
                            committed_leader_epoch=6,
                            committed_metadata="x",
                        )
                    ],
                )
            ],
        ),
        6,
        (
            "027402670000000000000005000200000003026d0269020102030405060708090a0b0c0d0e0f1002000000"
            "01000000000000002a000000060278000000"
        ),
    ),
    (
        txn_offset_commit.Response(
            throttle_time_ms=3,
            topics=[
                txn_offset_commit.ResponseTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        txn_offset_commit.ResponsePartition(
                            partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                        )
                    ],
                )
            ],
        ),
        6,
        "00000003020102030405060708090a0b0c0d0e0f1002000000010064000000",
    ),
    (delete_groups.Request(groups_names=["a", "b"]), 3, "030261026200"),
    (
        delete_groups.Response(
            throttle_time_ms=3,
            results=[
                delete_groups.DeletableGroupResult(
                    group_id="a", error_code=ErrorCode.NON_EMPTY_GROUP, error_message="busy"
                ),
                delete_groups.DeletableGroupResult(group_id="b", error_code=ErrorCode.NONE),
            ],
        ),
        3,
        "00000003030261004405627573790002620000000000",
    ),
    (
        streams_group_heartbeat.Request(
            group_id="g",
            member_id="m",
            member_epoch=0,
            endpoint_information_epoch=2,
            instance_id="i",
            rack_id="r",
            rebalance_timeout_ms=1000,
            topology=streams_group_heartbeat.Topology(
                epoch=4,
                subtopologies=[
                    streams_group_heartbeat.Subtopology(
                        subtopology_id="0",
                        source_topics=["s"],
                        state_changelog_topics=[
                            streams_group_heartbeat.TopicInfo(
                                name="c",
                                partitions=0,
                                replication_factor=3,
                                topic_configs=[
                                    streams_group_heartbeat.KeyValue(key="k", value="v")
                                ],
                            )
                        ],
                        repartition_sink_topics=["t"],
                        copartition_groups=[
                            streams_group_heartbeat.CopartitionGroup(source_topics=[0])
                        ],
                    )
                ],
            ),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[streams_group_heartbeat.TaskIds(subtopology_id="0", partitions=[1, 2])],
            process_id="p",
            user_endpoint=streams_group_heartbeat.Endpoint(host="h", port=40_000),
            client_tags=[streams_group_heartbeat.KeyValue(key="z", value="a")],
            task_offsets=[
                streams_group_heartbeat.TaskOffset(subtopology_id="0", partition=1, offset=9)
            ],
            shutdown_application=True,
        ),
        1,
        (
            "0267026d000000000000000202690272000003e80100000004020230020273010202630000000000030202"
            "6b027600000202740102020000010100000001010202300300000001000000020002700102689c40000202"
            "7a02610002023000000001000000000000000900000100"
        ),
    ),
    (
        _streams_heartbeat_response(acceptable_recovery_lag=10_000),
        0,
        (
            "00000001000000026d0000000300001388000027100000ea60020302640002023002000000010001010000"
            "00020202689c4000020273020000000100010000"
        ),
    ),
    (
        _streams_heartbeat_response(
            acceptable_recovery_lag_v1=10_000, topology_description_required=True
        ),
        1,
        (
            "00000001000000026d00000003000013880000ea6000000000000027100203026400020230020000000100"
            "010101000000020202689c4000020273020000000100010000"
        ),
    ),
    (
        streams_group_describe.Request(
            group_ids=["g"], include_authorized_operations=True, include_topology_description=True
        ),
        1,
        "020267010100",
    ),
    (
        streams_group_describe.Response(
            groups=[
                streams_group_describe.DescribedGroup(
                    group_id="g",
                    group_state="Stable",
                    group_epoch=3,
                    assignment_epoch=2,
                    topology=streams_group_describe.Topology(
                        epoch=4,
                        subtopologies=[
                            streams_group_describe.Subtopology(
                                subtopology_id="0",
                                source_topics=["s"],
                                repartition_sink_topics=["t"],
                                state_changelog_topics=[],
                                repartition_source_topics=[],
                            )
                        ],
                    ),
                    members=[
                        streams_group_describe.Member(
                            member_id="m",
                            member_epoch=3,
                            client_id="c",
                            client_host="/h",
                            topology_epoch=4,
                            process_id="p",
                            user_endpoint=streams_group_describe.Endpoint(host="h", port=80),
                            assignment=_ONE_TASK,
                            target_assignment=_ONE_TASK,
                        )
                    ],
                    topology_description=streams_group_describe.TopologyDescription(
                        subtopologies=[
                            streams_group_describe.TopologyDescriptionSubtopology(
                                subtopology_id="0",
                                nodes=[
                                    streams_group_describe.TopologyDescriptionNode(
                                        name="n",
                                        node_type=1,
                                        source_topics=["s"],
                                        sink_topic="t",
                                        stores=[],
                                        successors=["x"],
                                    )
                                ],
                            )
                        ],
                        global_stores=[],
                    ),
                    topology_description_status=3,
                    assignor_name="sticky",
                )
            ]
        ),
        1,
        (
            "0000000002000000026707537461626c65000000030000000201000000040202300202730202740101000002"
            "026d0000000300000263032f680000000402700102680050000101010202300200000001000101000202300200"
            "000001000101000000800000000102023002026e01020273027401020278000001000307737469636b790000"
        ),
    ),
    (
        topology_description_update.Request(
            group_id="g",
            member_id="m",
            topology_epoch=4,
            topology_description=topology_description_update.TopologyDescription(
                subtopologies=[],
                global_stores=[
                    topology_description_update.TopologyDescriptionGlobalStore(
                        source=_NODE, processor=_NODE
                    )
                ],
            ),
        ),
        0,
        "0267026d000000040102026e010202730002026b0100026e010202730002026b0100000000",
    ),
    (
        topology_description_update.Response(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="e"
        ),
        0,
        "000000000023026500",
    ),
]


@pytest.mark.parametrize(("message", "version", "written"), WRITTEN_BY_JAVA)
def test_writes_and_reads_what_java_writes(message: Message, version: int, written: str) -> None:
    assert message.encode_to_bytes(version).hex() == written
    assert type(message).decode(version, bytes.fromhex(written)) == message
