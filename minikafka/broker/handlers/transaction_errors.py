"""Maps errors of a transaction coordinator for clients of older versions."""

from __future__ import annotations

from ...protocol.errors import ErrorCode

_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def fenced_error(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """Replaces PRODUCER_FENCED for clients that do not know it (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def append_error(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The error of an append whose transaction the coordinator did not confirm.

    Produce has no coordinator errors: transient ones become NOT_ENOUGH_REPLICAS, after which every
    client retries. A transaction that the coordinator does not have can only be aborted.
    """
    if code in _RETRIABLE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.INVALID_TXN_STATE and knows_abortable:
        return ErrorCode.TRANSACTION_ABORTABLE
    return code
