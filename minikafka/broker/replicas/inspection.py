"""Looking at the records of client batches in worker threads, before they are appended.

Most batches are appended unread. The records of some have to be decompressed: those for a topic
with a ``compression.type`` of its own that came in another, and compressed or large ones for a
compacted topic, or with timestamps that are out of bounds. How long that takes is up to the client,
so the event loop leaves it to threads: few at a time, one batch after the other from each
connection, and within a `Budget` for each request.
"""

from __future__ import annotations

import os

import trio

from ...data_class import replace
from ...protocol.records.compression import Compression
from ...storage.validation import (
    DECOMPRESSED_RATIO_MAX,
    INSPECTED_SIZE_BYTES_FREE,
    INSPECTED_SIZE_BYTES_MAX,
    validate_client_batch,
)
from ..system.workers import RunInThread
from .recompression import is_compressed_otherwise, recompress
from .topic_state import TopicState

_THREADS_MAX = 4


class Budget:
    """What the batches of one request may be decompressed to, together."""

    __slots__ = ("_left_bytes",)

    def __init__(self) -> None:
        self._left_bytes = INSPECTED_SIZE_BYTES_FREE

    def begin(self, size_bytes: int) -> int:
        """Begin a batch; returns what it may be decompressed to."""
        self._left_bytes += size_bytes * DECOMPRESSED_RATIO_MAX
        return min(self._left_bytes, INSPECTED_SIZE_BYTES_MAX)

    def spend(self, size_bytes: int) -> None:
        """A batch was decompressed to so many bytes."""
        self._left_bytes -= size_bytes


class Inspector:
    """Inspects batches in worker threads, for all connections together."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        # One processor is left to the event loop.
        self._limiter = trio.CapacityLimiter(max(1, min(_THREADS_MAX, (os.cpu_count() or 2) - 1)))

    async def inspect(
        self,
        records: memoryview | bytes,
        topic: TopicState,
        budget: Budget,
        *,
        now_ms: int,
        version: int,
    ) -> memoryview | bytes:
        """Validate a client's batch with its records; returns it as it is to be stored.

        Raises:
            LogError: the batch is refused.
        """
        compression, level, config = topic.compression, topic.compression_level, topic.log_config
        spent = size_bytes_max = budget.begin(len(records))

        def inspect() -> memoryview | bytes:
            nonlocal spent
            plain = recompress(records, Compression.NONE, size_bytes_max=size_bytes_max)
            validate_client_batch(
                plain,
                # What is stored may not be larger; the append compares that.
                replace(config, max_message_bytes=size_bytes_max + len(records)),
                now_ms=now_ms,
                request_version=version,
                decompressed_size_bytes_max=size_bytes_max + len(records),
            )
            spent = len(plain)
            if compression is None or not is_compressed_otherwise(records, compression):
                return records
            return recompress(plain, compression, level, size_bytes_max=spent)

        async with self._limiter:
            try:
                return await self._run_in_thread(inspect)
            finally:
                budget.spend(spent)
