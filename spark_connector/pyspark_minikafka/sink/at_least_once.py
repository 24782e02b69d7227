"""At-least-once writes: each task sends its rows, and a failed task's records stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ..environment import prepare_worker
from .input_schema import InputColumns
from .settings import SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from minikafka_client.sync import Writer


class Written(WriterCommitMessage):
    """A task's number of delivered records."""

    def __init__(self, record_count: int) -> None:
        self.record_count = record_count


def write_rows(
    writer: Writer, settings: SinkSettings, columns: InputColumns, rows: Iterator[pa.RecordBatch]
) -> None:
    """Encode rows and send them.

    Raises:
        RefusedRowError: a row cannot be a record.
        KafkaError: records could not be delivered.
    """
    from .row_encoder import RowEncoder

    encoder = RowEncoder(
        columns,
        settings.topic,
        writer.partition_count,
        batch_size_bytes_max=settings.batch_size_bytes,
        compression=settings.compression,
        partitioning=settings.kafka.partitioning(),
    )
    for topic, partition, payload, record_count in encoder.encode(rows):
        writer.send_batch(topic, partition, payload, record_count)


class _RowsWriter:
    def __init__(self, settings: SinkSettings, columns: InputColumns) -> None:
        self._settings = settings
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        settings = self._settings
        prepare_worker(settings.driver_version)
        from minikafka_client.sync import Writer

        with Writer(settings.kafka.bootstrap, **settings.producer_options()) as writer:
            write_rows(writer, settings, self._columns, iterator)
            writer.flush()
            return Written(writer.delivered_records)


class BatchWriter(_RowsWriter, DataSourceArrowWriter):  # type: ignore[misc] # Spark declares rows, and passes Arrow to Arrow writers
    """``df.write.format("minikafka").mode("append")``."""


class AtLeastOnceWriter(_RowsWriter, DataSourceStreamArrowWriter):  # type: ignore[misc] # as above
    """``df.writeStream.format("minikafka").option("deliveryGuarantee", "at-least-once")``."""

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - the name is Spark's
    ) -> None:
        """Nothing: everything is written."""

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - the name is Spark's
    ) -> None:
        """Nothing: what is written stays, and Spark repeats the batch."""
