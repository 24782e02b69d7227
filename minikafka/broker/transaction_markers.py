"""Markers: a coordinator's decision as it is written into the partitions that this broker leads.

Nothing waits in a task: a marker is appended in the call that brings it, and whoever brought it
hears in the call that moves the last high watermark past it. Those who bring markers to all leaders
are in `marker_sending`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from ..coordinator.transaction import TopicPartition
from ..protocol.errors import ErrorCode
from ..protocol.records import ControlType
from ..storage.errors import LogError
from .groups import OFFSETS_TOPIC
from .partition import Partition, PartitionError

if TYPE_CHECKING:
    from ..coordinator.group.pending_offsets import EndedOffsets
    from .broker import Broker

logger = logging.getLogger(__name__)

WRITE_MARKERS = "write-markers"
"""Operation: [producer id, epoch, coordinator epoch, transaction version, commits,
[[topic, partition], ...]] -> the error code of each partition."""

_PARTITIONS_PER_REQUEST_MAX = 20_000
_REQUESTS_AT_ONCE_MAX = 4_096

OnWritten = Callable[[list[ErrorCode]], None]


class Marker(NamedTuple):
    """What a marker says; see `Log.append_marker`."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    commits: bool


class _Commit:
    """Waits until a marker is committed in one partition; the group coordinator hears of it."""

    __slots__ = ("_end_offset", "_ended", "_number", "_partition", "_write")

    def __init__(
        self,
        write: MarkerWrite,
        number: int,
        partition: Partition,
        end_offset: int,
        ended: EndedOffsets | None,
    ) -> None:
        self._write = write
        self._number = number
        self._partition = partition
        self._end_offset = end_offset
        self._ended = ended

    def settle(self, error_code: ErrorCode) -> None:
        """Called by the partition."""
        if error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._partition.wait_for_commit(self, self._end_offset)
            return
        if error_code is ErrorCode.NONE and self._ended is not None:
            self._write.broker.groups.marker_committed(
                self._partition.index, self._ended, commits=self._write.marker.commits
            )
        self._write.settled(self._number, error_code)


class MarkerWrite:
    """One marker on its way into partitions that this broker leads.

    Args:
        broker: this one.
        marker: what is written.
        places: where.
        on_written: called once, maybe at once, with NONE or why it is not written for each place.
    """

    def __init__(
        self,
        broker: Broker,
        marker: Marker,
        places: Sequence[TopicPartition],
        on_written: OnWritten,
    ) -> None:
        self.broker = broker
        self.marker = marker
        self._codes = [ErrorCode.NONE] * len(places)
        self._left = len(places)
        self._on_written = on_written
        with broker.replicas.server.telling_followers:
            for number, place in enumerate(places):
                try:
                    self._append(number, place)
                except (PartitionError, LogError) as error:
                    self.settled(number, ErrorCode(error.error_code))
        if not places:
            on_written([])

    def _append(self, number: int, place: TopicPartition) -> None:
        broker, marker = self.broker, self.marker
        partition = broker.partition(*place)
        partition.check_in_sync()
        result = partition.append_marker(
            ControlType.COMMIT if marker.commits else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            now_ms=broker.clock.wall_ms(),
        )
        ended = None
        if result is None:
            # It is there already, but may not be committed: everything up to here has to be.
            end_offset = partition.log.log_end_offset
        else:
            end_offset = result.last_offset + 1
            if place[0] == OFFSETS_TOPIC:
                ended = broker.groups.marker_appended(place[1], marker.producer_id)
        commit = _Commit(self, number, partition, end_offset, ended)
        if partition.log.high_watermark >= end_offset:
            commit.settle(ErrorCode.NONE)
            return
        partition.wait_for_commit(commit, end_offset)
        if partition.topic.is_fsync_acked:
            broker.transactions.runtime.nursery.start_soon(_sync, broker, partition, end_offset)

    def settled(self, number: int, error_code: ErrorCode) -> None:
        """The outcome in one partition is known."""
        self._codes[number] = error_code
        self._left -= 1
        if not self._left:
            self._on_written(self._codes)


async def _sync(broker: Broker, partition: Partition, offset: int) -> None:
    try:
        await broker.make_durable(partition, offset)
    except LogError as error:
        logger.error("%r: %s", partition, error)


async def write_marker(
    broker: Broker, marker: Marker, places: Sequence[TopicPartition]
) -> list[ErrorCode]:
    """Write a marker to partitions that this broker leads; returns when it is committed in all.

    Returns:
        NONE, or why it is not written, for each of the places.
    """
    written = trio.Event()
    codes: list[ErrorCode] = []

    def on_written(found: list[ErrorCode]) -> None:
        codes.extend(found)
        written.set()

    MarkerWrite(broker, marker, places, on_written)
    await written.wait()
    return codes


class MarkerServer:
    """Answers coordinators on other nodes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._open = 0

    def serve(
        self,
        node_id: int,
        fields: Any,
        attachments: Sequence[memoryview],
        respond: Callable[[Any, Sequence[Any]], None],
    ) -> None:
        """Write a marker, and answer when it is committed in all partitions.

        Raises:
            RpcFailure: the request is none, or too many wait already.
        """
        from .rpc import RpcFailure

        match fields:
            case (
                int(producer_id),
                int(epoch),
                int(coordinator_epoch),
                int(version),
                bool(commits),
                [*places],
                *_,
            ) if not attachments and len(places) <= _PARTITIONS_PER_REQUEST_MAX:
                marker = Marker(producer_id, epoch, coordinator_epoch, version, commits)
            case _:
                raise RpcFailure("Malformed", f"node {node_id} sent no markers")
        wanted: list[TopicPartition] = []
        for place in places:
            match place:
                case (str(topic), int(number)):
                    wanted.append((topic, number))
                case _:
                    raise RpcFailure("Malformed", f"no topic and partition: {place!r:.100}")
        if self._open >= _REQUESTS_AT_ONCE_MAX:
            raise RpcFailure("Busy", f"{self._open} markers wait for their replicas")
        self._open += 1

        def on_written(codes: list[ErrorCode]) -> None:
            self._open -= 1
            respond([int(code) for code in codes], ())

        MarkerWrite(self._broker, marker, wanted, on_written)
