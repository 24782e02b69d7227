"""DescribeLogDirs 1-4: the data directory, and how large its partitions are (KIP-113).

There is one directory. Null topics mean all partitions, led or followed here; one that is asked for
and not here is left out. Nothing is a future replica, and the lag, which Kafka measures between a
log's end and its own high watermark, is always 0. From version 4 on (KIP-827) the answer has the
bytes that are usable on the disk and, where the operating system tells, its size.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_UNKNOWN = -1


async def handle(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe the directory, or say that its disk fails."""
    del context
    directory = broker.directory
    try:
        statistics = directory.statistics()
    except OSError:
        failed = DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
        )
        return DescribeLogDirsResponse(results=[failed])
    sizes = statistics.size_bytes_by_partition
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for key in sorted(sizes if wanted is None else wanted.intersection(sizes)):
        topics.setdefault(key[0], []).append(
            DescribeLogDirsPartition(
                partition_index=key[1], partition_size=sizes[key], offset_lag=0, is_future_key=False
            )
        )
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=directory.path,
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
                total_bytes=_total_bytes(directory.path),
                usable_bytes=statistics.free_bytes,
            )
        ]
    )


def _total_bytes(path: str) -> int:
    try:
        return shutil.disk_usage(path).total
    except OSError:
        return _UNKNOWN
