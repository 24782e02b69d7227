"""A snapshot as bytes: the payloads that, applied to nothing, give what was applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from minikafka.storage.checked_file import pack, unpack

__all__ = ["EMPTY_SNAPSHOT", "MalformedSnapshot", "decode_snapshot", "encode_snapshot"]


class MalformedSnapshot(ValueError):
    """The bytes are no snapshot."""


def encode_snapshot(payloads: Sequence[bytes]) -> bytes:
    """Bytes that `decode_snapshot` makes payloads of again."""
    return pack(list(payloads))


def decode_snapshot(snapshot: bytes) -> list[bytes]:
    """The payloads in a snapshot.

    Raises:
        MalformedSnapshot: the bytes are no snapshot.
    """
    try:
        payloads = unpack(snapshot)
    except ValueError as error:
        raise MalformedSnapshot(f"not a snapshot of the quorum's log: {error}") from error
    if not isinstance(payloads, list) or not all(isinstance(one, bytes) for one in payloads):
        raise MalformedSnapshot("a snapshot of the quorum's log is a list of byte strings")
    return cast("list[bytes]", payloads)


EMPTY_SNAPSHOT = encode_snapshot([])
"""What stands for everything before the first entry."""
