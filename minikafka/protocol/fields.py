"""The fields of Kafka's messages: what travels, in which versions, with which default."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn

if TYPE_CHECKING:
    from minikafka.protocol.schema import Struct

Kind = Literal[
    "boolean",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "float64",
    "uuid",
    "string",
    "bytes",
    "records",
    "struct",
    "array",
]

ZERO_UUID = bytes(16)
"""Kafka's "no topic id": 16 zero bytes. Uuids are plain 16-byte ``bytes`` in every message."""


class VersionRange(NamedTuple):
    """Inclusive range of API versions; ``last`` is `OPEN_END` where no end is declared."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        """Say whether a version lies in the range."""
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read ``"3+"``, ``"2-5"``, ``"7"`` or ``"none"``."""
        if text == "none":
            return NO_VERSION
        if text.endswith("+"):
            return cls(int(text[:-1]), OPEN_END)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


OPEN_END = 32767
NO_VERSION = VersionRange(1, 0)
EVERY_VERSION = VersionRange(0, OPEN_END)

_MISSING: Any = object()


class Field:
    """One attribute of a message: its type, the versions it travels in, and its default."""

    __slots__ = (
        "_default",
        "_default_factory",
        "item",
        "kind",
        "name",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: Kind,
        *,
        versions: str = "0+",
        nullable: str = "none",
        default: Any = _MISSING,
        default_factory: Callable[[], Any] | None = None,
        tag: int | None = None,
        tagged: str | None = None,
        struct: type[Struct] | None = None,
        item: Field | None = None,
    ) -> None:
        self.name = ""
        self.kind: Kind = kind
        self.versions = VersionRange.parse(versions)
        self.nullable = VersionRange.parse(nullable)
        self.tag = tag
        self.tagged = (
            NO_VERSION
            if tag is None
            else VersionRange.parse(versions if tagged is None else tagged)
        )
        self.struct = struct
        self.item = item
        self._default = default
        self._default_factory = default_factory

    @property
    def is_required(self) -> bool:
        """True when the constructor must be given a value."""
        return self._default is _MISSING and self._default_factory is None

    @property
    def default(self) -> Any:
        """The value of an absent field, one object for all; a list has `default_factory` instead.

        A struct that is its own default (``default_factory=LeaderIdAndEpoch``) is shared too, so
        that a partition's unused tagged structs cost nothing; the shared one refuses changes.
        """
        if self._default is not _MISSING:
            return self._default
        if self.kind == "struct":
            assert self.struct is not None
            return shared_default(self.struct)
        return _ZEROS.get(self.kind)

    @property
    def default_factory(self) -> Callable[[], Any] | None:
        """Makes the value of an absent list (or of what declares one); else None."""
        if self._default is not _MISSING:
            return None
        if self._default_factory is not None:
            return None if self._default_factory is self.struct else self._default_factory
        return list if self.kind == "array" else None


_SHARED: dict[type[Struct], Any] = {}  # one entry per declared class at most


def shared_default(struct: type[Struct]) -> Any:
    """The one instance of a struct with every default; it refuses changes."""
    shared = _SHARED.get(struct)
    if shared is None:
        shared = _SHARED[struct] = _frozen(struct)
    return shared


def _frozen(struct: type[Struct]) -> Any:
    def refuse(_self: Any, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"this {struct.__name__} is the default that all messages share: assign a new "
            f"{struct.__name__} instead of setting {name} to {value!r}"
        )

    def reduce(_self: Any) -> Any:
        return shared_default, (struct,)  # a copy is the same object

    instance = struct()
    instance.__class__ = type.__new__(
        type(struct),
        struct.__name__,
        (struct,),
        {"__slots__": (), "__setattr__": refuse, "__reduce__": reduce, "__doc__": struct.__doc__},
    )
    return instance


_ZEROS: Final[dict[Kind, Any]] = {
    "boolean": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "uint32": 0,
    "int64": 0,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
}


def boolean(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """One byte, 0 or 1."""
    return Field("boolean", versions=versions, default=default, tag=tag, tagged=tagged)


def int8(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """A signed byte."""
    return Field("int8", versions=versions, default=default, tag=tag, tagged=tagged)


def int16(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """A signed 16-bit integer."""
    return Field("int16", versions=versions, default=default, tag=tag, tagged=tagged)


def uint16(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """An unsigned 16-bit integer."""
    return Field("uint16", versions=versions, default=default, tag=tag, tagged=tagged)


def int32(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """A signed 32-bit integer."""
    return Field("int32", versions=versions, default=default, tag=tag, tagged=tagged)


def uint32(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """An unsigned 32-bit integer."""
    return Field("uint32", versions=versions, default=default, tag=tag, tagged=tagged)


def int64(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """A signed 64-bit integer."""
    return Field("int64", versions=versions, default=default, tag=tag, tagged=tagged)


def float64(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """An IEEE 754 double."""
    return Field("float64", versions=versions, default=default, tag=tag, tagged=tagged)


def uuid(
    *,
    versions: str = "0+",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """Sixteen bytes; `ZERO_UUID` stands for "none"."""
    return Field("uuid", versions=versions, default=default, tag=tag, tagged=tagged)


def string(
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """UTF-8 text of at most 32,767 bytes."""
    return Field(
        "string", versions=versions, nullable=nullable, default=default, tag=tag, tagged=tagged
    )


def octets(
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = _MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """Bytes, copied out of the frame (Kafka's type ``bytes``)."""
    return Field(
        "bytes", versions=versions, nullable=nullable, default=default, tag=tag, tagged=tagged
    )


def payload(*, versions: str = "0+", nullable: str = "none", default: Any = _MISSING) -> Any:
    """Record batches: decoded as a memoryview of the frame, encoded without a copy."""
    return Field("records", versions=versions, nullable=nullable, default=default)


def nested(
    struct: type[Struct],
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """One nested struct."""
    return Field(
        "struct",
        versions=versions,
        nullable=nullable,
        default=default,
        default_factory=default_factory,
        tag=tag,
        tagged=tagged,
        struct=struct,
    )


def array(
    item: Any,
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """A list of structs (pass the class) or of primitives (pass e.g. ``int32()``)."""
    return Field(
        "array",
        versions=versions,
        nullable=nullable,
        default=default,
        default_factory=default_factory,
        tag=tag,
        tagged=tagged,
        item=item if isinstance(item, Field) else Field("struct", struct=item),
    )
