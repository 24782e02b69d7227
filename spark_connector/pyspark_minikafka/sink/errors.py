"""What the sink raises on purpose, besides what the connector raises everywhere."""

from __future__ import annotations


class RefusedRowError(ValueError):
    """A row cannot become a record."""


class UnsupportedWriteError(ValueError):
    """A topic cannot be written to in this way."""


class LostTransactionError(RuntimeError):
    """A transaction that was recorded as committed was aborted; its rows are not in the topic.

    Only without two-phase commit can it happen: the time between writing and deciding was longer
    than the transaction's timeout. With the option ``failOnDataLoss`` set to false the query goes
    on without these rows.
    """


class OldCheckpointError(RuntimeError):
    """The commit log is ahead of the checkpoint: what is to be written was written before."""


class StaleLogError(RuntimeError):
    """A broker had shown less of the commit log than there is; nothing was decided."""
