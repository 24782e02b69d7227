"""How the errors of a transaction coordinator are told to clients of each version."""

from __future__ import annotations

from ..protocol.errors import ErrorCode

_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def fenced_error(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """PRODUCER_FENCED as clients know it that do not have that code (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def append_error(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Why an append to a transaction is refused, when its coordinator has not confirmed it.

    Produce has no codes of coordinators: what passes is NOT_ENOUGH_REPLICAS, after which every
    client tries again; a transaction that the coordinator does not know can only be aborted.
    """
    if code in _RETRIABLE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.INVALID_TXN_STATE and knows_abortable:
        return ErrorCode.TRANSACTION_ABORTABLE
    return code
