"""How errors of the log are mapped for clients: what they do about them depends on the request."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode


def write_error(error: ErrorCode) -> ErrorCode:
    return _WRITE_ERRORS.get(error, error)


def sync_write_error(error: ErrorCode) -> ErrorCode:
    return _SYNC_WRITE_ERRORS.get(error, error)


def commit_write_error(error: ErrorCode) -> ErrorCode:
    return _COMMIT_WRITE_ERRORS.get(error, error)


_TOO_LARGE = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)
_WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
}
_SYNC_WRITE_ERRORS = {
    **_WRITE_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}
_COMMIT_WRITE_ERRORS = {
    **_WRITE_ERRORS,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
}
