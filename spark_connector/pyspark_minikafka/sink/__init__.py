"""Writing data frames to topics: in batches, and in streams at least once or exactly once.

Exactly once means that readers with ``isolation.level=read_committed`` see a micro-batch completely
or not at all, and once, whichever process dies when.

A *part* is the transaction of one task, stored and left open. A batch becomes visible in two steps,
and the first one decides.

    the task (`protocol.run_task`)
      1  reads the commit log; if its batch is recorded there, it writes nothing
      2  begins a transaction, writes its rows, and waits until they are stored
      3  returns transactional id, producer id and epoch to the driver
    the driver (`protocol.commit`)
      4  lists the query's open transactions that no task has returned: *leftovers*
      5  claims the commit log: InitProducerId of the query's own transactional id fences every
         earlier driver, and waits until the transaction that it began is decided
      6  reads the commit log; if the batch is recorded, continues at 8 with what is recorded
      7  records (query, batch, parts) in a transaction of its own: THE DECISION
      8  commits every part, until the broker confirms that it is committed
      9  aborts the leftovers

What a crash leaves behind, and what happens next:

    after    commit log  parts          then
    2, 3     -           some open      the batch runs again with other transactions, and its driver
                                        finds the open ones in step 4 and aborts them in step 9
    5        -           all open       as above
    7        in doubt    all open       the next claim (5) decides it: recorded, or not
    7        batch b     all open       tasks of the repeated batch b write nothing (1); its driver
                                        commits what is recorded (8)
    8        batch b     some committed as above: committing again changes nothing
    9        batch b     all committed  as above; leftovers are listed and aborted again

Why nothing else can end a part:

- *Timeouts.* With two-phase commit (KIP-939; ``transaction.two.phase.commit.enable=true``) there
  are none. Without it, a part gets the longest timeout that the broker allows. If step 8 comes too
  late, it raises `LostTransactionError`: the query stops rather than continue without the rows.
- *Other attempts.* The transactional id of an attempt is new, or it is the one that the same Spark
  partition had in the batch before. The record of that batch has it, and only a first attempt of
  the same run may use it. (Using new ids only would be simpler, but coordinators remember an id for
  a week.) If the scheduler starts two first attempts, the second finds that the id is in use, and
  takes a new one: taking over an id does not end a prepared transaction (KIP-939).
- *Cleaning.* Leftovers are listed before the decision, so they belong to this batch or an older
  one. Each is aborted under its own producer id and epoch, which excludes anything newer. If the
  batch was recorded before, only those are aborted whose transactional id was made for this batch
  or an older one, and which the next batch may not use again.
- *Stale reads.* The offset of the record in step 7 shows whether step 6 has read everything before
  it; a deposed leader may have returned less (`StaleLogError`). Open transactions of other queries
  in the log do not matter: their markers are read, not the last stable offset.
- *Late drivers.* A driver that has lost the commit log (5) cannot record anything. What it still
  can do is harmless: commit the recorded parts again, or abort parts of no recorded batch.

Batches are in order in the log of a query, because Spark begins the next batch after step 9. The
number of tasks may change from batch to batch; the record names them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

    from ..options import Options


def make_batch_writer(
    options: Options, schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """Make what `DataSource.writer` returns.

    Raises:
        OptionError: the options are not those of a batch write.
        SchemaError: the columns cannot be written.
        UnsupportedWriteError: the mode is not ``append``.
    """
    from .at_least_once import BatchWriter
    from .errors import UnsupportedWriteError
    from .input_schema import input_columns
    from .settings import batch_settings

    if overwrite:
        raise UnsupportedWriteError(
            "a topic cannot be overwritten; use "
            "df.write.format('minikafka').mode('append').option('topic', ...).save()"
        )
    settings = batch_settings(options)
    return BatchWriter(settings, input_columns(schema, settings.topic))


def make_stream_writer(
    options: Options, schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Make what `DataSource.streamWriter` returns; in complete mode every batch is appended.

    Raises:
        OptionError: the options are not those of a streaming write.
        SchemaError: the columns cannot be written.
    """
    from .input_schema import input_columns
    from .settings import stream_settings

    del overwrite
    settings = stream_settings(options)
    columns = input_columns(schema, settings.topic)
    if settings.guarantee == "at-least-once":
        from .at_least_once import AtLeastOnceWriter

        return AtLeastOnceWriter(settings, columns)
    from .exactly_once import ExactlyOnceWriter

    return ExactlyOnceWriter(settings, columns)
