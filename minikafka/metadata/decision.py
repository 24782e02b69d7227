"""A controller's decision: records for the metadata log, and the result to answer with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ..protocol.errors import ErrorCode
from .records import MetadataRecord

_Result_co = TypeVar("_Result_co", covariant=True)


class Refusal(NamedTuple):
    """Why something was not done: Kafka's error code and a message."""

    error_code: ErrorCode
    message: str


Permits = Callable[[int], Refusal | None]
"""Asks for a number of partitions to be created or deleted; a refusal if there may be none now."""


def no_quota(partitions: int) -> None:
    """Anything is permitted."""
    del partitions


class Decision(NamedTuple, Generic[_Result_co]):
    """Records to append, and the result to answer with once they are committed."""

    records: list[MetadataRecord]
    result: _Result_co
