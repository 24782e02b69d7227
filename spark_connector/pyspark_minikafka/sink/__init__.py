"""Writing data frames to topics: in batches, and in streams at least once or exactly once.

Exactly once means: readers with ``isolation.level=read_committed`` see a micro-batch completely or
not at all, and once, whoever dies when.

A *part* is what a task has written: a transaction, stored and left open. A batch becomes visible
in two steps, and the first one decides.

    the task (`protocol.run_task`)
      1  reads the commit log; if its batch is recorded there, it writes nothing
      2  begins a transaction, writes its rows to it, and waits until they are stored
      3  tells the driver transactional id, producer id and epoch, and ends
    the driver (`protocol.commit`)
      4  lists the query's open transactions that no task has told of: *leftovers*
      5  claims the commit log: InitProducerId of the query's own transactional id fences every
         driver before it, and waits until what they have begun is decided
      6  reads the commit log; if the batch is recorded, goes on with 8 and what is recorded
      7  records (query, batch, parts) in a transaction of its own: THE DECISION
      8  commits every part, until the broker says that it is committed
      9  aborts the leftovers

What a crash leaves behind, and who puts it right:

    after    commit log  parts          what happens then
    2, 3     -           some open      the batch runs again with other transactions, whose driver
                                        finds the open ones in step 4 and aborts them in step 9
    5        -           all open       likewise
    7        in doubt    all open       the next claim (5) decides it: recorded, or not
    7        batch b     all open       tasks of the repeated batch b write nothing (1); its driver
                                        commits what is recorded (8)
    8        batch b     some committed likewise: to commit again what is committed changes nothing
    9        batch b     all committed  likewise; leftovers are listed and aborted again

Why nothing else can end a part:

- *Timeouts.* With two-phase commit (KIP-939; ``transaction.two.phase.commit.enable=true``) there
  are none. Without, a part gets the longest timeout that the broker allows, and if step 8 comes too
  late, `LostTransactionError` says so: the query stands still rather than going on without rows.
- *Other attempts.* An attempt's transactional id is new, or it is the one that the same Spark
  partition had in the batch before: known from the record of that batch, to be used only by a first
  attempt of the same run. (New ids for all of them would be simpler, but coordinators remember an
  id for a week.) Where the scheduler makes two first attempts, the second finds that the id is in
  use, and takes a new one: taking over an id does not end what is prepared there (KIP-939).
- *Cleaning.* Leftovers are listed before the decision, so they belong to this batch or an older
  one, and each is aborted under its own producer id and epoch, so that nothing newer can be meant.
  Where the batch was recorded before, only those are aborted whose transactional id was made for
  this batch or an older one, and is not among those that the next batch may use again.
- *Old answers.* The offset of the record in step 7 tells whether step 6 has read all that is before
  it; a leader that was replaced without knowing it may have shown less (`StaleLogError`). What
  other queries have open in the log does not matter: their markers are looked at, not the last
  stable offset.
- *Late drivers.* Who has lost the commit log (5) can record nothing. What it can still do, commit
  the recorded parts again or abort what is not part of a recorded batch, does no harm.

The order in the log of a query is the order of its batches, because Spark begins the next batch
when step 9 is done. The number of tasks may change from batch to batch; the record names them all.
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
    """What `DataSource.writer` returns.

    Raises:
        OptionError: the options are not those of a batch write.
        SchemaError: the columns cannot be written.
        UnsupportedWriteError: the mode is not ``append``.
    """
    from .errors import UnsupportedWriteError
    from .input_schema import input_columns
    from .plain import BatchWriter
    from .settings import batch_settings

    if overwrite:
        raise UnsupportedWriteError(
            "mode 'overwrite' is not for topics, which only grow; use mode('append')"
        )
    settings = batch_settings(options)
    return BatchWriter(settings, input_columns(schema, settings.topic))


def make_stream_writer(
    options: Options, schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """What `DataSource.streamWriter` returns; in complete mode every batch is appended.

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
        from .plain import AtLeastOnceWriter

        return AtLeastOnceWriter(settings, columns)
    from .exactly_once import ExactlyOnceWriter

    return ExactlyOnceWriter(settings, columns)
