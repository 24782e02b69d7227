"""Writes transaction markers to the partitions that this broker leads.

No task waits: a marker is appended in the call that requests it, and its outcome is reported in the
call that moves the last high watermark past it. `marker_sender` brings markers to all leaders.

A partition remembers the epochs of a marker and refuses smaller ones for good, so epochs from
elsewhere are bounded. A coordinator's epoch is the leader epoch of its partition of
``__transaction_state``: a broker may send at most the highest that this one knows of, and is asked
to try again otherwise, because this one may lag behind. A client may abort what a producer left
open here, with the epochs that DescribeProducers reports.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...coordinator.transaction import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.records import ControlType
from ...storage.errors import InvalidProducerEpoch, LogError
from ...storage.producer_state import EPOCH_PER_TRANSACTION
from ..replicas.manager import ReplicaManager
from ..replicas.partition import Partition, PartitionError
from ..rpc.codec import Respond
from ..rpc.errors import RpcFailure
from ..rpc.operations import WriteMarkers, WriteMarkersResult
from ..settings.effective import MetadataView
from ..system.clock import Clock
from .groups import GroupService
from .internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from ...coordinator.group.pending_offsets import EndedOffsets

logger = logging.getLogger(__name__)


_REQUESTS_AT_ONCE_MAX = 4_096

OnWritten = Callable[[list[ErrorCode]], None]


class Marker(NamedTuple):
    """The content of a marker; see `Log.append_marker`."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    commits: bool


class _Commit:
    """Waits until a marker is committed in one partition, which calls `settle`."""

    __slots__ = ("_end_offset", "_ended", "_number", "_partition", "_write")

    def __init__(
        self,
        write: _MarkerWrite,
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
        if error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._partition.wait_for_commit(self, self._end_offset)
            return
        if error_code is ErrorCode.NONE and self._ended is not None:
            self._write.offsets_ended(self._partition.index, self._ended)
        self._write.settled(self._number, error_code)


class _MarkerWrite:
    __slots__ = ("_codes", "_groups", "_left", "_on_written", "is_from_client", "marker")

    def __init__(
        self,
        groups: GroupService,
        marker: Marker,
        count: int,
        on_written: OnWritten,
        *,
        is_from_client: bool,
    ) -> None:
        self.marker = marker
        self.is_from_client = is_from_client
        self._groups = groups
        self._codes = [ErrorCode.NONE] * count
        self._left = count
        self._on_written = on_written

    def offsets_ended(self, number: int, ended: EndedOffsets) -> None:
        """A marker is committed in ``__consumer_offsets``."""
        self._groups.marker_committed(number, ended, commits=self.marker.commits)

    def settled(self, number: int, error_code: ErrorCode) -> None:
        self._codes[number] = error_code
        self._left -= 1
        if not self._left:
            self._on_written(self._codes)


class MarkerWriter:
    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupService,
        clock: Clock,
        make_durable: Callable[[Partition, int], Awaitable[None]],
        metadata: MetadataView,
    ) -> None:
        self._metadata = metadata
        self._coordinator_epoch_max = -1
        self._replicas = replicas
        self._groups = groups
        self._clock = clock
        self._make_durable = make_durable

    def write(
        self,
        marker: Marker,
        places: Sequence[TopicPartition],
        on_written: OnWritten,
        *,
        from_client: bool = False,
    ) -> None:
        """Append a marker to each partition.

        ``on_written`` is called once, possibly before this returns, with an error code for each
        partition: NONE where the marker is committed, or where a client's would end nothing.
        """
        if not places:
            on_written([])
            return
        write = _MarkerWrite(
            self._groups, marker, len(places), on_written, is_from_client=from_client
        )
        with self._replicas.follower_batch:
            for number, place in enumerate(places):
                try:
                    self._append(write, number, place)
                except (PartitionError, LogError) as error:
                    write.settled(number, ErrorCode(error.error_code))

    def _append(self, write: _MarkerWrite, number: int, place: TopicPartition) -> None:
        marker = write.marker
        partition = self._replicas.index.find(*place)
        partition.check_in_sync()
        if write.is_from_client:
            if not _has_written(partition, marker):
                write.settled(number, ErrorCode.NONE)
                return
        elif marker.coordinator_epoch > self._coordinator_epoch_max:
            self._check_coordinator_epoch(marker)
        result = partition.append_marker(
            ControlType.COMMIT if marker.commits else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            now_ms=self._clock.wall_ms(),
        )
        ended = None
        if result is None:
            # The marker was written before but may not be committed, so wait for the whole log.
            end_offset = partition.log.log_end_offset
        else:
            end_offset = result.last_offset + 1
            if place[0] == OFFSETS_TOPIC:
                ended = self._groups.marker_appended(place[1], marker.producer_id)
        commit = _Commit(write, number, partition, end_offset, ended)
        if partition.log.high_watermark >= end_offset:
            commit.settle(ErrorCode.NONE)
            return
        partition.wait_for_commit(commit, end_offset)
        if partition.topic.is_fsync_acked:
            self._groups.runtime.nursery.start_soon(self._sync, partition, end_offset)

    def _check_coordinator_epoch(self, marker: Marker) -> None:
        """Compare it with the metadata, which changes seldom: the maximum is kept."""
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        epochs = [] if topic is None else [one.leader_epoch for one in topic.partitions]
        self._coordinator_epoch_max = max(epochs, default=-1)
        if marker.coordinator_epoch > self._coordinator_epoch_max:
            raise PartitionError(
                ErrorCode.INVALID_REQUEST,
                f"a marker of coordinator epoch {marker.coordinator_epoch}; the highest leader "
                f"epoch of {TRANSACTIONS_TOPIC} known here is {self._coordinator_epoch_max}",
            )

    async def _sync(self, partition: Partition, offset: int) -> None:
        try:
            await self._make_durable(partition, offset)
        except LogError as error:
            logger.error("%r: %s", partition, error)

    async def write_and_wait(
        self, marker: Marker, places: Sequence[TopicPartition], *, from_client: bool = False
    ) -> list[ErrorCode]:
        """As `write`, but wait; returns an error code for each partition."""
        written = trio.Event()
        codes: list[ErrorCode] = []

        def on_written(found: list[ErrorCode]) -> None:
            codes.extend(found)
            written.set()

        self.write(marker, places, on_written, from_client=from_client)
        await written.wait()
        return codes


def _has_written(partition: Partition, marker: Marker) -> bool:
    """Whether a client's marker could end something in a partition.

    Raises:
        PartitionError: it has a coordinator epoch that was never seen here.
        InvalidProducerEpoch: it has an epoch that the producer's transaction cannot have.
    """
    epochs = partition.log.producer_state.epochs_of(marker.producer_id)
    if epochs is None:
        return False
    producer_epoch, coordinator_epoch = epochs
    if marker.coordinator_epoch > max(0, coordinator_epoch):
        raise PartitionError(
            ErrorCode.INVALID_REQUEST,
            f"a client's marker of coordinator epoch {marker.coordinator_epoch}; that of producer "
            f"{marker.producer_id} here is {coordinator_epoch}",
        )
    ends_later = marker.transaction_version >= EPOCH_PER_TRANSACTION
    if marker.producer_epoch > producer_epoch + ends_later:
        raise InvalidProducerEpoch(
            f"a client's marker of epoch {marker.producer_epoch}; producer {marker.producer_id} "
            f"has epoch {producer_epoch} here"
        )
    return True


class MarkerServer:
    def __init__(self, writer: MarkerWriter) -> None:
        self._writer = writer
        self._open = 0

    def serve(
        self,
        node_id: int,
        request: WriteMarkers,
        attachments: Sequence[memoryview],
        respond: Respond[WriteMarkersResult],
    ) -> None:
        """Write a marker, and respond when it is committed in all partitions.

        Raises:
            RpcFailure: too many markers are waiting.
        """
        del node_id, attachments
        if self._open >= _REQUESTS_AT_ONCE_MAX:
            raise RpcFailure("Busy", f"{self._open} markers are waiting for their replicas")
        self._open += 1

        def on_written(codes: list[ErrorCode]) -> None:
            self._open -= 1
            respond(WriteMarkersResult(tuple(codes)), ())

        marker = Marker(
            request.producer_id,
            request.producer_epoch,
            request.coordinator_epoch,
            request.transaction_version,
            request.commits,
        )
        self._writer.write(marker, request.partitions, on_written)
