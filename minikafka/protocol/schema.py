"""Kafka messages declared once, compiled per version.

A message is a class whose attributes say what travels and in which versions::

    class Coordinator(Struct):
        key: str = string()
        node_id: int = int32()
        host: str | None = string(nullable="2+")

    class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
        key: str = string(versions="0-3", default="")
        key_type: int = int8(versions="1+", default=0)
        coordinator_keys: list[str] = array(string(), versions="4+", default_factory=list)

A field that names neither ``default`` nor ``default_factory`` is required when the object is
built in Python. A field that the version at hand does not carry is skipped when encoding and
takes its default (or its type's zero) when decoding. A tagged field at its default does not travel.

For every (class, version) that is really used, `minikafka.protocol.compiler` writes one decoder
and one encoder in straight-line Python. Nothing is compiled before its first use, so a process
that speaks five APIs pays for five.

Source for the encodings: the Kafka protocol guide and KIP-482 (flexible versions, tagged fields).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, TypeGuard, cast, dataclass_transform

from minikafka.protocol.exceptions import (
    EncodeError,
    MalformedMessageError,
    ProtocolError,
    UnsupportedVersionError,
)
from minikafka.protocol.fields import (
    ZERO_UUID,
    Field,
    VersionRange,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    octets,
    payload,
    string,
    uint16,
    uint32,
    uuid,
)

__all__ = [
    "ZERO_UUID",
    "Buffer",
    "EncodeError",
    "Field",
    "MalformedMessageError",
    "Message",
    "Payload",
    "ProtocolError",
    "Request",
    "Response",
    "Struct",
    "UnsupportedVersionError",
    "VersionRange",
    "array",
    "boolean",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "nested",
    "octets",
    "payload",
    "string",
    "struct_fields",
    "uint16",
    "uint32",
    "uuid",
]

Buffer = bytes | bytearray | memoryview


def is_buffer(value: object) -> TypeGuard[Buffer]:
    """True for bytes in any of the three forms that messages hold."""
    return isinstance(value, bytes | bytearray | memoryview)


class Payload(Protocol):
    """Bytes that travel as they are: a buffer, or a slice of a file that the shell sends."""

    def __len__(self) -> int:
        """Size in bytes."""
        ...


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        uuid,
        string,
        octets,
        payload,
        nested,
        array,
    ),
)
class StructMeta(type):
    """Turns the declared fields into slots and gives the class a keyword constructor."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        """Collect the `Field` values of the class body."""
        fields: list[Field] = []
        for attribute, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = attribute
                fields.append(value)
                del namespace[attribute]
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["FIELDS"] = tuple(fields)
        if fields or bases:
            # Compiled at the first call: most classes of a process are never built.
            namespace["__init__"] = _first_init
        return super().__new__(mcs, name, bases, namespace, **options)


def _first_init(self: Any, *args: Any, **values: Any) -> None:
    from minikafka.protocol.compiler import compile_init

    cls = cast("Any", type(self))
    cls.__init__ = compile_init(cls)
    cls.__init__(self, *args, **values)


class Struct(metaclass=StructMeta):
    """A group of fields; objects compare and print by value."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __eq__(self, other: object) -> bool:
        """Compare all fields."""
        # The shared default of a struct is of a subclass; nothing else inherits from a message.
        if not (isinstance(other, type(self)) or isinstance(self, type(other))):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable, as with dataclasses

    def __repr__(self) -> str:
        """Name every field; long bytes are cut."""
        inside = ", ".join(f"{f.name}={_shown(getattr(self, f.name))}" for f in self.FIELDS)
        return f"{type(self).__name__}({inside})"


def _shown(value: Any) -> str:
    """A value in a message's text; a record payload of megabytes is cut to its first bytes."""
    if not is_buffer(value):
        return repr(value)
    if len(value) <= _SHOWN_BYTES:
        return repr(bytes(value))
    return f"<{len(value)} bytes {bytes(value[:_SHOWN_BYTES])!r}...>"


_SHOWN_BYTES = 48

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
    """Most items that all arrays of a received message may hold together.

    Three bytes on the wire can become 150 bytes of Python objects, so the size of a frame alone
    bounds memory badly. With this, a request takes at most 75 MB (300 bytes an item) beside its
    strings, and a response 2 GB (500 bytes an item), where Kafka's largest clusters need 2 million.
    """
    _decoders: ClassVar[dict[int, Decoder]]
    _encoders: ClassVar[dict[int, Encoder]]

    def __init_subclass__(
        cls, *, versions: str = "none", flexible: str = "none", api_key: int = -1
    ) -> None:
        """Take the class options ``versions``, ``flexible`` and ``api_key``."""
        cls.VERSIONS = VersionRange.parse(versions)
        cls.FLEXIBLE = VersionRange.parse(flexible)
        cls.API_KEY = api_key
        cls._decoders = {}
        cls._encoders = {}

    @classmethod
    def decode(cls, version: int, frame: Buffer, position: int = 0) -> Self:
        """Read one message of this version that starts at ``position`` (bytes).

        Record payloads are views of the frame; everything else is copied out of it. Bytes after
        the message are left alone, as Kafka does.

        Raises:
            MalformedMessageError: the bytes end early, a length, count or text is impossible, or
                the arrays hold more than `ITEMS_MAX` items.
            UnsupportedVersionError: this message has no such version.
        """
        decoder = cls._decoders.get(version)
        if decoder is None:
            decoder = cls._compile_decoder(version)
        view = frame if isinstance(frame, memoryview) else memoryview(frame)
        try:
            return decoder(view, position, len(view), cls.ITEMS_MAX)  # type: ignore[no-any-return]  # compiled for this class
        except (MalformedMessageError, ValueError, IndexError, struct.error) as error:
            raise MalformedMessageError(f"{cls.__name__} v{version}: {error}") from None

    def encode(self, version: int, prefix: bytes = b"") -> list[Any]:
        """Write this message in a version; returns the buffers to send, in order.

        Args:
            version: the API version.
            prefix: bytes to put before the message (a header), so that small messages are one
                buffer. Record payloads are returned as the objects they are, never copied.

        Raises:
            EncodeError: a value is null where it may not be, or out of its type's range.
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
        """`encode`, joined (payloads must be buffers)."""
        return b"".join(self.encode(version, prefix))

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        from minikafka.protocol.compiler import compile_decoder

        cls._check_version(version)
        decoder = compile_decoder(cls, version, version in cls.FLEXIBLE)
        cls._decoders[version] = decoder
        return decoder

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        from minikafka.protocol.compiler import compile_encoder

        cls._check_version(version)
        encoder = compile_encoder(cls, version, version in cls.FLEXIBLE)
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
    """What a broker answers."""


def struct_fields(cls: type[Struct], version: int) -> list[Field]:
    """The fields that travel in a version, in wire order, tagged ones included."""
    return [field for field in cls.FIELDS if version in field.versions]
