"""What can be wrong between bytes and messages."""

from __future__ import annotations

__all__ = [
    "EncodeError",
    "MalformedMessageError",
    "ProtocolError",
    "UnsupportedVersionError",
]


class ProtocolError(Exception):
    """Something on the wire is not what Kafka's protocol allows."""


class MalformedMessageError(ProtocolError):
    """A frame whose bytes do not form the message that its header announces."""


class UnsupportedVersionError(ProtocolError):
    """A message was to be read or written in a version that it does not have."""


class EncodeError(ProtocolError):
    """A Python object holds something that cannot travel (a null, a string that is too long)."""
