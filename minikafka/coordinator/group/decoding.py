"""The table of record types of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable

from ...data_class import DataClass
from .classic.records import GROUP_KEY_VERSION, decode_group
from .consumer.records import CONSUMER_GROUP_DECODERS
from .records import OFFSET_KEY_VERSIONS, Entry, decode_offset, version_of
from .share.records import SHARE_GROUP_DECODERS
from .streams.records import STREAMS_GROUP_DECODERS


class UnknownKind(DataClass):
    """A record that this broker skips."""

    key_version: int


Decoder = Callable[[int, bytes, bytes | None], Entry]
"""Takes the version of the key, the key, and the value."""

_DECODERS: dict[int, Decoder] = {
    **dict.fromkeys(OFFSET_KEY_VERSIONS, decode_offset),
    GROUP_KEY_VERSION: decode_group,
    **CONSUMER_GROUP_DECODERS,
    **SHARE_GROUP_DECODERS,
    **STREAMS_GROUP_DECODERS,
}


def decode_entry(key: bytes, value: bytes | None) -> Entry | UnknownKind:
    """Decode a record.

    Raises:
        MalformedMessageError: key or value is damaged, or the value has a later version.
    """
    key_version = version_of(key)
    decode = _DECODERS.get(key_version)
    return UnknownKind(key_version) if decode is None else decode(key_version, key, value)
