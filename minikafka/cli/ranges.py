"""Ranges of offsets: what partitions hold now, or the part of it between two places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from minikafka_client.sync import Reader

from .output import note
from .places import BEGINNING, END, Place
from .record_printer import NothingLeftError

if TYPE_CHECKING:
    from minikafka_client import AdminClient, ConsumerRecord, TopicPartition

    Ranges = dict[TopicPartition, tuple[int, int]]

Isolation = Literal["read_uncommitted", "read_committed"]


async def whole_ranges(
    admin: AdminClient,
    topics: Sequence[str],
    *,
    isolation_level: Isolation = "read_uncommitted",
) -> Ranges:
    """First offset (inclusive) and end offset (exclusive) of every partition of topics."""
    from minikafka_client import TopicPartition

    described = await admin.describe_topics(topics)
    partitions = [
        TopicPartition(name, one.partition)
        for name, topic in described.items()
        for one in topic.partitions
    ]
    return await ranges_between(admin, partitions, BEGINNING, END, isolation_level=isolation_level)


async def ranges_between(
    admin: AdminClient,
    partitions: Sequence[TopicPartition],
    first: Place,
    until: Place,
    *,
    isolation_level: Isolation = "read_uncommitted",
) -> Ranges:
    """The offsets from one place (inclusive) to another (exclusive), of what is there now.

    An offset that a partition does not have becomes the nearest one, with a note; a time after its
    last record becomes its end.
    """
    from minikafka_client import EARLIEST, LATEST

    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.list_offsets(
        dict.fromkeys(partitions, LATEST), isolation_level=isolation_level
    )
    bounds = {one: (starts[one].offset, ends[one].offset) for one in partitions}
    firsts = await _offsets_at(admin, first, bounds)
    untils = await _offsets_at(admin, until, bounds)
    return {one: (firsts[one], max(firsts[one], untils[one])) for one in partitions}


async def _offsets_at(
    admin: AdminClient, place: Place, bounds: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    times = (
        await admin.list_offsets(dict.fromkeys(bounds, place.number))
        if place.kind == "time"
        else {}
    )
    found: dict[TopicPartition, int] = {}
    for partition, (start, end) in bounds.items():
        match place.kind:
            case "beginning":
                wanted = start
            case "end":
                wanted = end
            case "offset":
                wanted = place.number
            case "from_end":
                wanted = max(start, end - place.number)
            case "time":
                # No record is that late: -1. Or it is behind the last stable offset.
                wanted = times[partition].offset
                wanted = end if wanted < 0 else min(wanted, end)
        found[partition] = min(max(wanted, start), end)
        if found[partition] != wanted:
            note(
                f"{partition.topic}:{partition.partition} has offsets {start} to {end}; "
                f"using {found[partition]} instead of {wanted}"
            )
    return found


class RangeRecords:
    """The records of ranges as a source for a `RecordPrinter`; it ends with the last of them.

    Args:
        reader: is used in a thread, one call at a time.
    """

    def __init__(self, reader: Reader) -> None:
        self._runs = iter(reader)
        self._records: Iterator[ConsumerRecord] = iter(())

    async def poll(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """As `Consumer.poll`; it does not wait for ``timeout_ms``, as the records are there.

        Raises:
            NothingLeftError: all ranges are read.
        """
        import trio

        del timeout_ms
        return await trio.to_thread.run_sync(self._take, max_records, abandon_on_cancel=True)

    def _take(self, max_records: int) -> list[ConsumerRecord]:
        taken: list[ConsumerRecord] = []
        while not taken:
            taken = [one for _, one in zip(range(max_records), self._records, strict=False)]
            if not taken:
                run = next(self._runs, None)
                if run is None:
                    raise NothingLeftError
                self._records = iter(run.records)
        return taken

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Nothing: there is no group."""
