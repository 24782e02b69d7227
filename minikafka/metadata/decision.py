"""What a controller decides: records for the metadata log, and what to answer afterwards."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from ..protocol.errors import ErrorCode
from .records import MetadataRecord

_Result_co = TypeVar("_Result_co", covariant=True)


class Refusal(NamedTuple):
    """Why something was not done: a Kafka error and a sentence for people."""

    error_code: ErrorCode
    message: str


class Decision(NamedTuple, Generic[_Result_co]):
    """Records to append, and what to answer once they are committed."""

    records: list[MetadataRecord]
    result: _Result_co
