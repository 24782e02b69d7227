"""A decision as bytes: the records of one change, which are one entry of the quorum's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgpack

from .records import MetadataLogError, MetadataRecord, decode_record, encode_record

__all__ = ["decode_decision", "encode_decision"]


def encode_decision(records: Sequence[MetadataRecord]) -> bytes:
    """The records of one decision, as a msgpack list of encoded records."""
    packed: bytes = msgpack.packb([encode_record(record) for record in records])
    return packed


def decode_decision(payload: bytes) -> list[MetadataRecord]:
    """Read the records of a decision.

    Raises:
        MetadataLogError: the bytes are no decision, or a record is from a newer minikafka.
    """
    try:
        packed = msgpack.unpackb(payload, use_list=False)
    except ValueError as error:
        raise _unreadable(repr(error)) from error
    if not isinstance(packed, tuple):
        raise _unreadable(f"{packed!r:.40}")
    records = cast("tuple[object, ...]", packed)
    if not all(isinstance(one, bytes) for one in records):
        raise _unreadable(f"{packed!r:.40}")
    return [decode_record(one) for one in cast("tuple[bytes, ...]", records)]


def _unreadable(what: str) -> MetadataLogError:
    return MetadataLogError(
        f"an entry of the metadata log cannot be read ({what}); was this data directory written "
        "by a newer minikafka?"
    )
