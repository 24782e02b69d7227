"""Reads topics as a batch, between offsets that are fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from minikafka_client.types import TopicPartition

from .environment import connector_version
from .errors import OptionError, data_loss
from .filters import FilterPushdown, Narrowing
from .lookups import Lookups, listed, resolve
from .offset_specs import SpecKind
from .ranges import between, plan_tasks
from .schemas import arrow_schema
from .source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from .record_source import RecordSource

Offsets = dict[TopicPartition, int]


def record_source(options: SourceOptions, driver_version: str) -> RecordSource:
    """What a task reads with; the driver does not load it."""
    from .record_source import RecordSource

    return RecordSource(
        kafka=options.kafka,
        isolation_level=options.isolation_level,
        fail_on_data_loss=options.fail_on_data_loss,
        patience_ms=options.patience_ms,
        driver_version=driver_version,
    )


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._narrowing = Narrowing()
        self._driver_version = connector_version()
        setattr(self, "pushFilters", FilterPushdown(self._narrowing))  # noqa: B010 - see there

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks.

        Raises:
            OptionError: a topic does not exist, or the start is after the end.
            DataLossError: the options name offsets that do not exist.
            KafkaError: the brokers could not be asked.
        """
        options = self._options
        lookups = Lookups(options)
        try:
            ranges = lookups.sized(between(*self._offsets(lookups)))
        finally:
            lookups.close()
        tasks = plan_tasks(
            ranges,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
            min_records_per_task=options.min_records_per_task,
        )
        return [InputPartition(task) for task in tasks]

    def _offsets(self, lookups: Lookups) -> tuple[Offsets, Offsets]:
        options, narrowing = self._options, self._narrowing
        found = lookups.find().partitions
        starts = resolve(
            lookups,
            found,
            options.starting,
            uses_latest_without_timestamp=options.uses_latest_without_timestamp,
        )
        ends = resolve(lookups, found, options.ending, uses_latest_without_timestamp=True)
        self._check_order(starts, ends)
        wanted = narrowing.partitions(found)
        starts, ends = narrowing.clipped(
            {each: starts[each] for each in wanted}, {each: ends[each] for each in wanted}
        )
        self._check(lookups, starts, ends)
        timestamp_ms = narrowing.timestamp_ms_min
        if timestamp_ms >= 0:
            for each, offset in lookups.offsets(dict.fromkeys(wanted, timestamp_ms)).items():
                starts[each] = ends[each] if offset < 0 else max(starts[each], offset)
        return starts, ends

    def _check_order(self, starts: Offsets, ends: Offsets) -> None:
        """Refuse a start after the end, as the official connector does."""
        starting = self._options.starting
        for each in sorted(starts):
            if starts[each] > ends[each]:
                raise OptionError(
                    f"{starting.option} of {listed([each])} is {starts[each]}, after the end at "
                    f"{ends[each]}: the records in between are no longer in the topic, or the "
                    f"offset belongs to another topic or one that was deleted and created again"
                )

    def _check(self, lookups: Lookups, starts: Offsets, ends: Offsets) -> None:
        """Compare the user's offsets with the existing ones."""
        options = self._options
        losses: list[str] = []
        if options.starting.kind is SpecKind.OFFSETS:
            firsts = lookups.earliest(starts)
            early = {each: first for each, first in firsts.items() if starts[each] < first}
            # With a predicate on offsets, a start before the first record is only a bound.
            if early and not self._narrowing.offset_min:
                losses.append(f"startingOffsets are before the first record of {listed(early)}")
            starts.update(early)
        if options.ending.kind is SpecKind.OFFSETS:
            lasts = lookups.latest(ends)
            late = {each: last for each, last in lasts.items() if ends[each] > last}
            if late:
                losses.append(f"endingOffsets are after the last record of {listed(late)}")
            ends.update(late)
        if losses and options.fail_on_data_loss:
            raise data_loss("; ".join(losses))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges; runs on a worker."""
        if partition.value is None:  # Spark's substitute for a plan without tasks
            return iter(())
        source = record_source(self._options, self._driver_version)
        return source.batches(partition.value, arrow_schema(self._schema))
