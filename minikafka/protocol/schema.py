"""Kafka messages declared once, compiled per version.

A message is a class whose attributes say what is sent and in which versions::

    class Coordinator(Struct):
        key: str = string()
        node_id: int = int32()
        host: str | None = string(nullable="2+")

    class Request(schema.Request, api_key=10, versions="0-6", flexible="3+"):
        key: str = string(versions="0-3", default="")
        key_type: int = int8(versions="1+", default=0)
        coordinator_keys: list[str] = array(string(), versions="4+", default_factory=list)

A field with neither ``default`` nor ``default_factory`` is required when the object is built in
Python. A field that a version does not carry is skipped when encoding and takes its default (or
its type's zero) when decoding. A tagged field at its default is not sent.

For every (class, version) in use, `minikafka.protocol.decoder` and `minikafka.protocol.encoder`
write straight-line Python. Nothing is compiled before its first use, so a process that speaks five
APIs pays for five.

Source for the encodings: the Kafka protocol guide and KIP-482 (flexible versions, tagged fields).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Self

from minikafka.protocol.exceptions import (
    EncodeError,
    MalformedMessageError,
    UnsupportedVersionError,
)
from minikafka.protocol.fields import Buffer, Struct, VersionRange

Decoder = Callable[[memoryview, int, int, int], Any]
"""``decode(view, position, end, items) -> message``; ``items`` is how many it may hold."""

Encoder = Callable[[Any, list[Any], bytearray], None]
"""``encode(message, parts, out)`` writes to ``out``, the last of ``parts``, and appends parts."""


class Message(Struct):
    """A struct with versions of its own: a request, a response, or a stored record."""

    VERSIONS: ClassVar[VersionRange]
    FLEXIBLE: ClassVar[VersionRange]
    API_KEY: ClassVar[int] = -1
    ITEMS_MAX: ClassVar[int] = 4_000_000
    """How many items all arrays of a received message may hold together.

    Three bytes on the wire can become 150 bytes of Python objects, so the size of a frame alone
    is a poor bound on memory. With this limit a request takes at most 75 MB (300 bytes per item)
    besides its strings, and a response 2 GB (500 bytes per item; Kafka's largest clusters need
    2 million items), or 3 GB if it describes streams groups.
    """
    _decoders: ClassVar[dict[int, Decoder]]
    _encoders: ClassVar[dict[int, Encoder]]

    def __init_subclass__(
        cls, *, versions: str = "none", flexible: str = "none", api_key: int = -1
    ) -> None:
        cls.VERSIONS = VersionRange.parse(versions)
        cls.FLEXIBLE = VersionRange.parse(flexible)
        cls.API_KEY = api_key
        cls._decoders = {}
        cls._encoders = {}

    @classmethod
    def decode(
        cls, version: int, frame: Buffer, position: int = 0, items_max: int | None = None
    ) -> Self:
        """Decode the message that starts at ``position`` (bytes).

        Record payloads are views of the frame; everything else is copied out of it. Bytes after
        the message are ignored, as in Kafka.

        Raises:
            MalformedMessageError: the bytes end early, a length, count or text is invalid, or
                the arrays hold more than ``items_max`` items (default: `ITEMS_MAX`).
            UnsupportedVersionError: this message has no such version.
        """
        decoder = cls._decoders.get(version)
        if decoder is None:
            decoder = cls._compile_decoder(version)
        view = frame if isinstance(frame, memoryview) else memoryview(frame)
        most = cls.ITEMS_MAX if items_max is None else items_max
        try:
            return decoder(view, position, len(view), most)  # type: ignore[no-any-return]  # compiled for this class
        except (MalformedMessageError, ValueError, IndexError, struct.error) as error:
            raise MalformedMessageError(f"{cls.__name__} v{version}: {error}") from None

    def encode(self, version: int, prefix: bytes = b"") -> list[Any]:
        """Encode this message; returns the buffers to send, in order.

        Args:
            version: the API version.
            prefix: bytes to put before the message (a header), so that a small message is one
                buffer. Record payloads are returned as they are, never copied.

        Raises:
            EncodeError: a value is null where null is not allowed, or out of its type's range.
            UnsupportedVersionError: this message has no such version.
        """
        encoder = self._encoders.get(version)
        if encoder is None:
            encoder = self._compile_encoder(version)
        out = bytearray(prefix)
        parts: list[Any] = [out]
        try:
            encoder(self, parts, out)
        except (TypeError, AttributeError, ValueError, OverflowError, struct.error) as error:
            from minikafka.protocol.faults import first_fault

            fault = first_fault(self, version) or str(error)
            raise EncodeError(f"{type(self).__name__} v{version}: {fault}") from error
        if not parts[-1] and len(parts) > 1:
            parts.pop()  # a message that ends with its records
        return parts

    def encode_to_bytes(self, version: int, prefix: bytes = b"") -> bytes:
        """`encode`, joined into one buffer; payloads must be buffers."""
        return b"".join(self.encode(version, prefix))

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        from minikafka.protocol.decoder import compile_decoder

        cls._check_version(version)
        decoder: Decoder = compile_decoder(cls, version, version in cls.FLEXIBLE)
        cls._decoders[version] = decoder
        return decoder

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        from minikafka.protocol.encoder import compile_encoder

        cls._check_version(version)
        encoder: Encoder = compile_encoder(cls, version, version in cls.FLEXIBLE)
        cls._encoders[version] = encoder
        return encoder

    @classmethod
    def _check_version(cls, version: int) -> None:
        if version not in cls.VERSIONS:
            raise UnsupportedVersionError(
                f"{cls.__name__} has versions {cls.VERSIONS.first} to {cls.VERSIONS.last}, "
                f"not {version}"
            )


class Request(Message):
    """What a client sends."""

    ITEMS_MAX = 250_000


class Response(Message):
    """What a broker sends back."""
