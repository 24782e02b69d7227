"""How long one message takes to read or to write: the messages of a broker's hot path.

Each function here builds one piece of work; `WORK` names them all. ``python -m
benchmarks.micro.codec`` prints microseconds per call: the best of several rounds, because a shared
machine can only make a round slower, never faster.
"""

from __future__ import annotations

import struct
import sys
import timeit
from collections.abc import Callable
from typing import Any

from minikafka.protocol.frames import encode_response
from minikafka.protocol.messages import fetch, metadata, produce

Work = Callable[[], Any]
RECORDS = bytes(1000)


def decode_produce(version: int, partitions: int) -> Work:
    """A ProduceRequest with 1,000 bytes of records for each partition of one topic."""
    message = produce.Request(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            produce.TopicData(
                name="flights",
                partition_data=[
                    produce.PartitionData(index=index, records=RECORDS)
                    for index in range(partitions)
                ],
            )
        ],
    )
    frame = memoryview(message.encode_to_bytes(version))
    return lambda: produce.Request.decode(version, frame)


def encode_produce_response(version: int, partitions: int) -> Work:
    """Build and write a ProduceResponse, as the broker does for every request."""

    def work() -> list[Any]:
        message = produce.Response(
            responses=[
                produce.TopicResponse(
                    name="flights",
                    partition_responses=[
                        produce.PartitionResponse(
                            index=index, error_code=0, base_offset=12_345, log_start_offset=0
                        )
                        for index in range(partitions)
                    ],
                )
            ]
        )
        return encode_response(message, version, 7)

    return work


def decode_fetch(version: int, partitions: int) -> Work:
    """A FetchRequest for the partitions of one topic."""
    message = fetch.Request(
        max_wait_ms=500,
        min_bytes=1,
        topics=[
            fetch.Topic(
                topic="flights",
                topic_id=bytes(range(16)),
                partitions=[
                    fetch.Partition(partition=index, fetch_offset=12_345, partition_max_bytes=2**20)
                    for index in range(partitions)
                ],
            )
        ],
    )
    frame = memoryview(message.encode_to_bytes(version))
    return lambda: fetch.Request.decode(version, frame)


def _fetch_response(partitions: int) -> fetch.Response:
    return fetch.Response(
        session_id=77,
        responses=[
            fetch.TopicResponse(
                topic="flights",
                partitions=[
                    fetch.PartitionData(
                        partition_index=index,
                        error_code=0,
                        high_watermark=12_345,
                        last_stable_offset=12_345,
                        log_start_offset=0,
                        aborted_transactions=[],
                        records=RECORDS,
                    )
                    for index in range(partitions)
                ],
            )
        ],
    )


def encode_fetch_response(version: int, partitions: int) -> Work:
    """Write a FetchResponse as a list of buffers, the records not copied."""
    message = _fetch_response(partitions)
    return lambda: encode_response(message, version, 7)


def build_and_encode_fetch_response(version: int, partitions: int) -> Work:
    """The same, including the construction of the objects, as the broker does for every fetch."""
    return lambda: encode_response(_fetch_response(partitions), version, 7)


def _metadata_response(partitions: int) -> metadata.Response:
    return metadata.Response(
        brokers=[
            metadata.Broker(node_id=node, host=f"host-{node}", port=9092) for node in range(3)
        ],
        cluster_id="a-cluster",
        controller_id=1,
        topics=[
            metadata.ResponseTopic(
                error_code=0,
                name=f"topic-{topic}",
                topic_id=struct.pack(">QQ", 1, topic),
                partitions=[
                    metadata.Partition(
                        error_code=0,
                        partition_index=index,
                        leader_id=index % 3,
                        leader_epoch=4,
                        replica_nodes=[0, 1, 2],
                        isr_nodes=[0, 1, 2],
                    )
                    for index in range(10)
                ],
            )
            for topic in range(partitions // 10)
        ],
    )


def encode_metadata(version: int, partitions: int) -> Work:
    """A MetadataResponse: topics of ten partitions with three replicas each."""
    message = _metadata_response(partitions)
    return lambda: encode_response(message, version, 7)


def decode_metadata(version: int, partitions: int) -> Work:
    """The same, read by a client."""
    frame = memoryview(_metadata_response(partitions).encode_to_bytes(version))
    return lambda: metadata.Response.decode(version, frame)


WORK: dict[str, Work] = {
    f"{make.__name__} v{version}, {partitions} partitions": make(version, partitions)
    for make, versions, sizes in (
        (decode_produce, (7, 9), (1, 100)),
        (encode_produce_response, (7, 9), (1, 100)),
        (decode_fetch, (11, 12, 17), (1, 100)),
        (encode_fetch_response, (11, 12), (1, 100)),
        (build_and_encode_fetch_response, (11, 12), (1, 100)),
        (encode_metadata, (5, 12), (200,)),
        (decode_metadata, (5, 12), (200,)),
    )
    for version in versions
    for partitions in sizes
}


def measure(work: Work, rounds: int = 15, round_seconds: float = 0.02) -> float:
    """Microseconds per call, in the best round."""
    timer = timeit.Timer(work)
    calls, seconds = timer.autorange()
    calls = max(1, round(calls * round_seconds / seconds))
    return min(timer.repeat(rounds, calls)) / calls * 1e6


def main() -> None:
    """Print every figure whose name contains the first argument."""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, work in WORK.items():
        if part in name:
            print(f"{measure(work):9.2f} us  {name}")


if __name__ == "__main__":
    main()
