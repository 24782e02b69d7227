"""Spark's interface to the exactly-once protocol."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.taskcontext import TaskContext

from ..environment import prepare_worker
from . import protocol
from .input_schema import InputColumns
from .protocol import Place, Result
from .settings import SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "spark.jobGroup.id"


class PartMessage(WriterCommitMessage):
    def __init__(self, result: Result) -> None:
        self.result = result


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("minikafka")``; Spark makes one for each batch, and one to commit."""

    def __init__(self, settings: SinkSettings, columns: InputColumns) -> None:
        self._settings = settings
        self._columns = columns
        self._nonce = secrets.token_hex(4)

    def write(  # type: ignore[override] # Spark declares rows, and passes Arrow to Arrow writers
        self, iterator: Iterator[pa.RecordBatch]
    ) -> PartMessage:
        """Write the rows of a task, and leave the transaction open."""
        prepare_worker(self._settings.driver_version)
        from .kafka import RealTaskKafka

        place = self._place()
        rows = (batch for batch in iterator if batch.num_rows)
        with RealTaskKafka(self._settings, self._columns) as kafka:
            return PartMessage(protocol.run_task(kafka, place, rows))

    def _place(self) -> Place:
        from .kafka import transactional_id

        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(_QUERY)
        batch_id = None if context is None else context.getLocalProperty(_BATCH)
        if context is None or query_id is None or batch_id is None:
            raise RuntimeError(
                f"this task has no local properties {_QUERY} and {_BATCH}, which "
                f"deliveryGuarantee='exactly-once' needs; set it to at-least-once"
            )
        attempt = context.taskAttemptId()
        return Place(
            query_id,
            context.getLocalProperty(_RUN) or f"{self._nonce}-{attempt}",
            int(batch_id),
            context.partitionId(),
            context.attemptNumber(),
            protocol.new_id(
                transactional_id(self._settings.sink_id, query_id, ""),
                int(batch_id),
                self._nonce,
                attempt,
            ),
        )

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - the name is Spark's
    ) -> None:
        """Make the batch visible.

        Raises:
            LostTransactionError: a part of it was aborted after the decision.
            OldCheckpointError: the checkpoint is older than the commit log.
            KafkaError: the batch may not be visible; Spark repeats it.
        """
        from .kafka import RealDriverKafka

        with RealDriverKafka(self._settings) as kafka:
            protocol.commit(
                kafka,
                batchId,
                _results(messages),
                fail_on_data_loss=self._settings.fail_on_data_loss,
            )

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - the name is Spark's
    ) -> None:
        """Abort what the tasks of a failed batch wrote."""
        from .kafka import RealDriverKafka

        with RealDriverKafka(self._settings) as kafka:
            protocol.abort(kafka, batchId, _results(messages))


def _results(messages: list[WriterCommitMessage | None]) -> list[Result]:
    return [each.result for each in messages if isinstance(each, PartMessage)]
