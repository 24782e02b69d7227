"""Reads topics as a stream: Spark asks where a batch ends, and then for what lies between.

Spark 4.2 and later pass a batch's start and its limit when they ask for its end. 4.1 passes
neither, so the reader remembers its position there, and options that limit batches are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType
from pyspark.version import __version__ as pyspark_version

from .batch_reader import record_source
from .environment import connector_version
from .errors import OptionError
from .lookups import Lookups
from .options import Options
from .ranges import plan_tasks
from .schemas import arrow_schema, check_schema
from .source_options import SourceOptions, stream_options
from .stream_offsets import INITIAL, Json, StreamOffset, by_topic, from_json
from .stream_plan import EVERYTHING, Admission, StreamPlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # Spark 4.1

        class SupportsTriggerAvailableNow: ...


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream.

    Wrong options are reported by the first method that needs them: Spark would hide an exception of
    the constructor behind one of its own.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._given = options
        self._schema = schema
        self._options: SourceOptions | None = None
        self._lookups: Lookups | None = None
        self._plan: StreamPlan | None = None
        self._position: StreamOffset | None = None
        self._driver_version = connector_version()

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get everything but the connections."""
        return {**self.__dict__, "_lookups": None, "_plan": None, "_position": None}

    def _source_options(self) -> SourceOptions:
        if self._options is None:
            check_schema(self._schema)
            self._options = stream_options(self._given)
            _check_limits(self._options)
        return self._options

    def _planned(self) -> StreamPlan:
        if self._plan is None:
            options = self._source_options()
            self._lookups = Lookups(options)
            self._plan = StreamPlan(options, self._lookups)
        return self._plan

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """A sentinel: see `stream_offsets.INITIAL`.

        Raises:
            OptionError: the options are not those of a stream.
            SchemaError: the user's schema has columns that the source does not have.
        """
        self._source_options()
        if self._position is None:
            self._position = INITIAL
        return INITIAL.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit that the options set."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

        options = self._source_options()
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Json | None = None, limit: ReadLimit | None = None
    ) -> Json:
        """Where the next batch ends; ``start`` itself when there is nothing to read.

        Raises:
            DataLossError: records were lost.
            OptionError: a topic does not exist.
            KafkaError: the brokers could not be asked.
        """
        position = self._position if start is None else from_json(start)
        end = self._planned().next(position, self._admission(limit))
        if end is not None:
            return end.to_json()
        if start is not None:
            return start
        return (position or INITIAL).to_json()

    def _admission(self, limit: ReadLimit | None) -> Admission:
        """How much a batch reads; Spark may want everything, regardless of the options."""
        options_min = self._source_options().min_offsets_per_trigger
        rows_max: int | None = getattr(limit, "max_rows", None)
        if rows_max is not None:
            return Admission(rows_max, options_min)
        rows_min: int | None = getattr(limit, "min_rows", None)
        return EVERYTHING if rows_min is None else Admission(None, rows_min)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end: the query stops there."""
        self._planned().freeze()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """The ends of the partitions, for the query's progress."""
        latest = self._planned().latest
        return None if latest is None else by_topic(latest)

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Plan the tasks of a batch.

        Raises:
            StreamOffsetError: the checkpoint belongs to another source.
            KafkaError: the brokers could not be asked.
        """
        options = self._source_options()
        self._position = from_json(end)
        tasks = plan_tasks(
            self._planned().ranges(from_json(start), self._position),
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
            min_records_per_task=options.min_records_per_task,
        )
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges; runs on a worker."""
        source = record_source(self._source_options(), self._driver_version)
        return source.batches(partition.value, arrow_schema(self._schema))

    def commit(self, end: Json) -> None:
        """Nothing: Spark's checkpoint has the offsets."""

    def stop(self) -> None:
        """Close the connections."""
        if self._lookups is not None:
            self._lookups.close()


def _check_limits(options: SourceOptions) -> None:
    if find_spec("pyspark.sql.streaming.datasource") is not None:
        return
    for name, limit in (
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
        ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
    ):
        if limit is not None:
            raise OptionError(
                f"{name} needs PySpark 4.2 or later; Spark {pyspark_version} does not let a source "
                f"in Python limit a batch. Upgrade PySpark, or leave the option out"
            )
