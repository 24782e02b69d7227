"""What a task does: it reads ranges of offsets and passes them to Spark as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from minikafka_client.core.cluster import Cluster
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import KafkaError, NoOffsetError, RequestTimeoutError
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.plan import Plan
from minikafka_client.sync import Reader
from minikafka_client.sync.plan_client import PlanClient
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    IsolationLevel,
    OffsetAndTimestamp,
    TopicPartition,
)

from .columns.decoder import decode_runs
from .environment import prepare_worker
from .errors import data_loss
from .kafka_properties import KafkaProperties
from .ranges import GUESSED_RECORD_SIZE_BYTES, OffsetRange

ROWS_WANTED: Final = 10_000
"""Arrow batches with fewer rows are merged ..."""

_SIZE_WANTED_BYTES: Final = 1024 * 1024
"""... unless they are this large: merging copies them."""

_FETCH_SIZE_BYTES_MIN: Final = 64 * 1024
_FETCH_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class RecordSource:
    """How tasks read; it is pickled for the workers.

    Attributes:
        fail_on_data_loss: whether to fail if records were lost, or to continue without them.
        patience_ms: how long to wait for records before giving up.
        driver_version: of the connector, for workers to compare.
    """

    kafka: KafkaProperties
    isolation_level: IsolationLevel
    fail_on_data_loss: bool
    patience_ms: int
    driver_version: str

    def batches(self, ranges: Sequence[OffsetRange], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read ranges of different partitions; the rows of each come in offset order.

        Raises:
            DataLossError: records were lost.
            KafkaError: the brokers could not be asked, or have damaged records.
            EnvironmentMismatchError: this worker differs from the driver.
        """
        prepare_worker(self.driver_version)
        check_crcs = self.kafka.reader_options().get("check_crcs", True)
        decoded = (
            decode_runs([run], schema.names, check_crcs=check_crcs) for run in self.runs(ranges)
        )
        return joined(decoded, schema)

    def runs(self, ranges: Iterable[OffsetRange]) -> Iterator[ConsumedBatch]:
        """The same, undecoded."""
        ranges = list(ranges)
        fetch_size = fetch_size_bytes(ranges)
        rest = {each.partition: (each.start, each.end) for each in ranges}
        while rest:
            try:
                with self._reader(rest, fetch_size) as reader:
                    for run in reader:
                        end = rest[run.topic_partition][1]
                        rest[run.topic_partition] = (run.next_offset, end)
                        yield run
                return
            except (NoOffsetError, RequestTimeoutError) as error:
                rest = self._without_lost(rest, error)

    def _reader(self, rest: dict[TopicPartition, tuple[int, int]], fetch_size: int) -> Reader:
        options: dict[str, Any] = {
            "max_partition_fetch_bytes": fetch_size,
            **self.kafka.reader_options(),
            **self.kafka.connection_options(),
        }
        return Reader(
            self.kafka.bootstrap,
            rest,
            isolation_level=self.isolation_level,
            patience_ms=self.patience_ms,
            **options,
        )

    def _without_lost(
        self, rest: dict[TopicPartition, tuple[int, int]], error: KafkaError
    ) -> dict[TopicPartition, tuple[int, int]]:
        """What can still be read.

        Raises:
            DataLossError: records were lost, and the query should fail then.
            KafkaError: no record was lost, so the cause is another one.
        """
        left = {each: span for each, span in rest.items() if span[0] < span[1]}
        with PlanClient(self.kafka.bootstrap, **self.kafka.connection_options()) as client:
            starts = client.run_plan(lambda cluster: self._offsets(cluster, left, EARLIEST))
            ends = client.run_plan(lambda cluster: self._offsets(cluster, left, LATEST))
        kept: dict[TopicPartition, tuple[int, int]] = {}
        losses: list[str] = []
        for each, (position, end) in left.items():
            first, last = starts[each].offset, ends[each].offset
            kept[each] = (max(position, first), min(end, last))
            if position < first:
                losses.append(
                    f"{each.topic}-{each.partition} begins at {first}, the query was at {position} "
                    f"(retention or DeleteRecords was faster than the query)"
                )
            elif last < end:
                losses.append(
                    f"{each.topic}-{each.partition} ends at {last}, the query should read to {end} "
                    f"(the log was truncated, or the topic was deleted and created again)"
                )
        if not losses:
            raise error
        if self.fail_on_data_loss:
            raise data_loss("; ".join(losses)) from None
        return {each: span for each, span in kept.items() if span[0] < span[1]}

    def _offsets(
        self, cluster: Cluster, partitions: Iterable[TopicPartition], spec: int
    ) -> Plan[dict[TopicPartition, OffsetAndTimestamp]]:
        specs = dict.fromkeys(partitions, spec)
        return list_offsets(cluster, specs, isolation_level=self.isolation_level)


def fetch_size_bytes(ranges: Iterable[OffsetRange]) -> int:
    """How much of a partition to fetch at once.

    A fetch has no last offset, and what it returns beyond the end of a range is discarded. So a
    short range is fetched in small pieces; if its records are larger than estimated, that takes
    several fetches.
    """
    size_bytes = max((each.cost * GUESSED_RECORD_SIZE_BYTES for each in ranges), default=0)
    return min(max(size_bytes, _FETCH_SIZE_BYTES_MIN), _FETCH_SIZE_BYTES_MAX)


def joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Merge small batches, and give all of them the schema that Spark expects."""
    waiting = _Waiting(schema)
    for batch in batches:
        if batch.num_rows:
            waiting.add(batch)
            if waiting.is_enough:
                yield waiting.take()
    if waiting.batches:
        yield waiting.take()


@dataclass
class _Waiting:
    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    rows: int = 0
    size_bytes: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(pa.RecordBatch.from_arrays(batch.columns, schema=self.schema))
        self.rows += batch.num_rows
        if self.rows < ROWS_WANTED:
            self.size_bytes += batch.nbytes

    @property
    def is_enough(self) -> bool:
        return self.rows >= ROWS_WANTED or self.size_bytes >= _SIZE_WANTED_BYTES

    def take(self) -> pa.RecordBatch:
        batches, self.batches = self.batches, []
        self.rows = self.size_bytes = 0
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
