"""Where a consumer reads: what it can be told and asked about its partitions' positions."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from minikafka_client.core.fetcher import Fetcher
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.trio_face.fetch_loop import FetchLoop
from minikafka_client.trio_face.lookups import Lookups
from minikafka_client.trio_face.reading import Reading
from minikafka_client.types import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition


class Positions(Lookups):
    """The methods; `Consumer` inherits them, and has these attributes."""

    _reading: Reading
    _fetches: FetchLoop
    _fetcher: Fetcher

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        """Read on from ``offset``.

        ``leader_epoch`` is that of the record before it, as `positions` tells it: should the log
        have been truncated there since, it is noticed (KIP-320).

        Raises:
            ValueError: the partition is not assigned, or the offset is negative.
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is negative; seek_to_end goes to the end")
        self._reader(partition).seek(offset, leader_epoch)
        self._moved()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on from the log start offset (no partitions named: all assigned ones)."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on from the end (no partitions named: all assigned ones)."""
        await self._seek_to(partitions, LATEST)

    async def _seek_to(self, partitions: Iterable[TopicPartition], spec: int) -> None:
        await trio.lowlevel.checkpoint()
        for partition in list(partitions) or list(self._reading.readers):
            self._reader(partition).reset(spec)
        self._moved()

    def _moved(self) -> None:
        self._reading.interrupt()
        self._fetches.changed()

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out; waits until it is known.

        Raises:
            KafkaError: the partition has failed.
            ValueError: the partition is not assigned.
        """
        await trio.lowlevel.checkpoint()
        while True:
            reader = self._reader(partition)
            if reader.phase is Phase.READY:
                return self._reading.handout.position(reader)
            if reader.error is not None:
                raise reader.error
            await self._fetches.next_change()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing from these partitions until `resume`."""
        for partition in partitions:
            self._reader(partition).is_paused = True
        self._moved()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out records of these partitions again."""
        for partition in partitions:
            reader = self._reader(partition)
            reader.is_paused = False
            self._fetcher.resumed(reader)
        self._moved()

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between position and the end last heard of; None before the first fetch."""
        reader = self._reader(partition)
        self._reading.handout.position(reader)
        return reader.lag

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata | int]:
        """What `commit` commits: the position of every partition that has one."""
        return dict(self._reading.handout.positions(self._reading.readers.values()))

    def _reader(self, partition: TopicPartition) -> PartitionReader:
        reader = self._reading.readers.get(partition)
        if reader is None:
            raise ValueError(
                f"partition {partition[1]} of topic {partition[0]!r} is not assigned to this "
                f"consumer"
            )
        return reader
