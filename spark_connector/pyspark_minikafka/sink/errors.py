"""The sink's own exceptions."""

from __future__ import annotations


class RefusedRowError(ValueError):
    """A row cannot become a record."""


class UnsupportedWriteError(ValueError):
    """The mode, the commit log or its format is not supported."""


class LostTransactionError(RuntimeError):
    """A transaction that was recorded as committed was aborted; its rows are not in the topic.

    This can only happen without two-phase commit, if the time between writing and deciding was
    longer than the transaction's timeout. With ``failOnDataLoss`` set to false the query continues
    without these rows.
    """


class OldCheckpointError(RuntimeError):
    """The commit log is ahead of the checkpoint, so the batch was already written."""


class StaleLogError(RuntimeError):
    """A broker returned an incomplete commit log; nothing was decided."""
