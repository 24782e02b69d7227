"""DescribeLogDirs 1-5: the data directory and the sizes of its partitions (KIP-113).

There is one directory. Null topics mean all replicas on this broker; requested partitions that have
none are left out. There are no future replicas, so the offset lag is always 0. From version 4 on
(KIP-827) the answer has the usable bytes of the disk and, if known, its size. No
directory is ever cordoned (version 5, KIP-1066).
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_log_dirs
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_UNKNOWN = -1


async def handle(
    broker: Broker, context: RequestContext, request: describe_log_dirs.Request
) -> describe_log_dirs.Response:
    del context
    directory, pace = broker.directory, Pace(broker.clock.monotonic)
    try:
        statistics = directory.statistics()
    except OSError:
        failed = describe_log_dirs.Result(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
        )
        return describe_log_dirs.Response(results=[failed])
    sizes = statistics.size_bytes_by_partition
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {
            (topic.topic, number)
            async for topic in pace.each(request.topics)
            async for number in pace.each(topic.partitions)
        }
    topics: dict[str, list[describe_log_dirs.Partition]] = {}
    for key in sorted(sizes if wanted is None else wanted.intersection(sizes)):
        topics.setdefault(key[0], []).append(
            describe_log_dirs.Partition(
                partition_index=key[1], partition_size=sizes[key], offset_lag=0, is_future_key=False
            )
        )
    return describe_log_dirs.Response(
        results=[
            describe_log_dirs.Result(
                error_code=ErrorCode.NONE,
                log_dir=directory.path,
                topics=[
                    describe_log_dirs.Topic(name=name, partitions=partitions)
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
