"""What the Java client of Kafka 4.4 writes, where kio does not know the version.

The bytes were written by the message classes of kafka-clients 4.4.0.
"""

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions, delete_groups, txn_offset_commit
from minikafka.protocol.schema import Message

TOPIC_ID = bytes(range(1, 17))

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
]


@pytest.mark.parametrize(("message", "version", "written"), WRITTEN_BY_JAVA)
def test_writes_and_reads_what_java_writes(message: Message, version: int, written: str) -> None:
    assert message.encode_to_bytes(version).hex() == written
    assert type(message).decode(version, bytes.fromhex(written)) == message
