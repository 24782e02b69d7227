"""Log levels as Kafka's BROKER_LOGGER resource (KIP-412), which can change while the broker runs.

The loggers are Python's: ``root``, and the existing ones of this package. Levels have log4j's
names. A change lasts until the broker stops.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...metadata.decision import Refusal
from ...metadata.setting_changes import Operation, SettingChange
from ...protocol.errors import ErrorCode

ROOT = "root"
_PACKAGE = "minikafka"
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}


def log_levels() -> dict[str, str]:
    known = logging.root.manager.loggerDict
    names = sorted(name for name in known if name.split(".")[0] == _PACKAGE)
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in [ROOT, *names]}


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _level_name(level: int) -> str:
    """The log4j level for a Python level: the highest one at or below it."""
    return next((name for name, number in _LEVELS.items() if level >= number), "TRACE")


def change_log_levels(changes: Sequence[SettingChange], *, validate_only: bool) -> Refusal | None:
    """Change all levels; returns an error if none was changed."""
    known = log_levels()
    for change in changes:
        refusal = _problem(change, known)
        if refusal is not None:
            return refusal
    if not validate_only:
        for name, operation, value in changes:
            level = logging.NOTSET
            if operation == Operation.SET and value is not None:
                level = _LEVELS[value]
            _logger(name).setLevel(level)
    return None


def _problem(change: SettingChange, known: dict[str, str]) -> Refusal | None:
    name, operation, value = change
    shown = name[:100]
    if operation not in (Operation.SET, Operation.DELETE):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Operation {operation} on {shown} is invalid; a log level can only be SET or DELETED.",
        )
    if name not in known:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {shown} does not exist.")
    if operation == Operation.DELETE:
        if name == ROOT:
            return Refusal(
                ErrorCode.INVALID_REQUEST, "The log level of the root logger cannot be removed."
            )
        return None
    if value not in _LEVELS:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Log level {str(value)[:100]!r} of {shown} is not one of {', '.join(_LEVELS)}.",
        )
    return None
