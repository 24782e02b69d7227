"""A snapshot as bytes: the payloads that rebuild the applied state from nothing.

A snapshot is a msgpack list of payloads and nothing else. What a later version has to add goes into
the payloads, which are declared where they are decided (`minikafka.metadata.records`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from minikafka.storage.checked_file import pack, unpack

__all__ = ["EMPTY_SNAPSHOT", "MalformedSnapshot", "decode_snapshot", "encode_snapshot"]


class MalformedSnapshot(ValueError):
    """The bytes are not a snapshot."""


def encode_snapshot(payloads: Sequence[bytes]) -> bytes:
    """The inverse of `decode_snapshot`."""
    return pack(list(payloads))


def decode_snapshot(snapshot: bytes) -> list[bytes]:
    """The payloads in a snapshot.

    Raises:
        MalformedSnapshot: not a snapshot.
    """
    try:
        payloads = unpack(snapshot)
    except ValueError as error:
        raise MalformedSnapshot(f"not a snapshot of the quorum's log: {error}") from error
    if not isinstance(payloads, list) or not all(isinstance(one, bytes) for one in payloads):
        raise MalformedSnapshot("a snapshot of the quorum's log is a list of byte strings")
    return cast("list[bytes]", payloads)


EMPTY_SNAPSHOT = encode_snapshot([])
"""Stands for everything before the first entry."""
