"""The errors of encoding and decoding messages."""

from __future__ import annotations

__all__ = [
    "EncodeError",
    "MalformedMessageError",
    "ProtocolError",
    "UnsupportedVersionError",
]


class ProtocolError(Exception):
    """A violation of Kafka's protocol."""


class MalformedMessageError(ProtocolError):
    """The bytes of a frame are not the message that its header names."""


class UnsupportedVersionError(ProtocolError):
    """A message does not have the version in which it was to be read or written."""


class EncodeError(ProtocolError):
    """A Python object holds a value that cannot be encoded (a null, a string that is too long)."""
