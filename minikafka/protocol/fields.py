"""Structs and their fields: what is sent, in which versions, with which default."""

from __future__ import annotations

from collections.abc import Callable
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    TypedDict,
    TypeGuard,
    Unpack,
    cast,
    dataclass_transform,
)

from minikafka.protocol.source import SourceWriter

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
"""Kafka's "no topic id". Uuids are plain 16-byte ``bytes`` in every message."""

Buffer = bytes | bytearray | memoryview


def is_buffer(value: object) -> TypeGuard[Buffer]:
    return isinstance(value, bytes | bytearray | memoryview)


class Payload(Protocol):
    """Bytes that are sent as they are: a buffer, or a slice of a file for ``sendfile``."""

    def __len__(self) -> int:
        """Size in bytes."""
        ...


class VersionRange(NamedTuple):
    """Inclusive range of versions; ``last`` is `OPEN_END` where no end is declared."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
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
    """One attribute of a struct: its type, the versions that carry it, and its default."""

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
        return self._default is _MISSING and self._default_factory is None

    @property
    def default(self) -> Any:
        """The value of an absent field, shared by all messages; lists have `default_factory`.

        A struct that is its own default (``default_factory=LeaderIdAndEpoch``) is shared too, so
        that a partition's unused tagged structs cost nothing; the shared instance is frozen.
        """
        if self._default is not _MISSING:
            return self._default
        if self.kind == "struct":
            assert self.struct is not None
            return shared_default(self.struct)
        return _ZEROS.get(self.kind)

    @property
    def default_factory(self) -> Callable[[], Any] | None:
        """Makes the value of an absent field that cannot be shared; None for all others."""
        if self._default is not _MISSING:
            return None
        if self._default_factory is not None:
            return None if self._default_factory is self.struct else self._default_factory
        return list if self.kind == "array" else None


_SHARED: dict[type[Struct], Any] = {}  # at most one entry per declared class


def shared_default(struct: type[Struct]) -> Any:
    """The frozen instance of a struct with all its defaults."""
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


class _Options(TypedDict, total=False):
    """What every field may declare; ``tagged`` is for one that is tagged in some versions only."""

    versions: str
    default: Any
    tag: int | None
    tagged: str | None


class _NullableOptions(_Options, total=False):
    nullable: str


class _GroupOptions(_NullableOptions, total=False):
    default_factory: Callable[[], Any] | None


def boolean(**options: Unpack[_Options]) -> Any:
    """One byte, 0 or 1."""
    return Field("boolean", **options)


def int8(**options: Unpack[_Options]) -> Any:
    return Field("int8", **options)


def int16(**options: Unpack[_Options]) -> Any:
    return Field("int16", **options)


def uint16(**options: Unpack[_Options]) -> Any:
    return Field("uint16", **options)


def int32(**options: Unpack[_Options]) -> Any:
    return Field("int32", **options)


def uint32(**options: Unpack[_Options]) -> Any:
    return Field("uint32", **options)


def int64(**options: Unpack[_Options]) -> Any:
    return Field("int64", **options)


def float64(**options: Unpack[_Options]) -> Any:
    """An IEEE 754 double."""
    return Field("float64", **options)


def uuid(**options: Unpack[_Options]) -> Any:
    """Sixteen bytes; `ZERO_UUID` stands for "none"."""
    return Field("uuid", **options)


def string(**options: Unpack[_NullableOptions]) -> Any:
    """UTF-8 text of at most 32,767 bytes."""
    return Field("string", **options)


def octets(**options: Unpack[_NullableOptions]) -> Any:
    """Bytes, copied out of the frame (Kafka's type ``bytes``)."""
    return Field("bytes", **options)


def payload(*, versions: str = "0+", nullable: str = "none", default: Any = _MISSING) -> Any:
    """Record batches: decoded as a memoryview of the frame, encoded without a copy."""
    return Field("records", versions=versions, nullable=nullable, default=default)


def nested(struct: type[Struct], **options: Unpack[_GroupOptions]) -> Any:
    """One nested struct."""
    return Field("struct", struct=struct, **options)


def array(item: Any, **options: Unpack[_GroupOptions]) -> Any:
    """A list of structs (pass the class) or of primitives (pass e.g. ``int32()``)."""
    if not isinstance(item, Field):
        item = Field("struct", struct=item)
    return Field("array", item=item, **options)


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
    """Turns the declared fields into slots, and gives the class a keyword constructor."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        fields: list[Field] = []
        for attribute, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = attribute
                fields.append(value)
                del namespace[attribute]
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["FIELDS"] = tuple(fields)
        if fields or bases:
            # Compiled at the first call: a process builds few of the classes it imports.
            namespace["__init__"] = _first_init
        if name in {"Request", "Response"} and "api_key" in options:
            # In texts `fetch.Request` has Kafka's name, FetchRequest. `__qualname__` stays: it is
            # where pickle looks.
            api = namespace["__module__"].rpartition(".")[2]
            name = api.title().replace("_", "") + name
        return super().__new__(mcs, name, bases, namespace, **options)


def _first_init(self: Any, *args: Any, **values: Any) -> None:
    cls = cast("Any", type(self))
    cls.__init__ = _compile_init(cls)
    cls.__init__(self, *args, **values)


def _compile_init(cls: type[Struct]) -> Callable[..., None]:
    writer = SourceWriter(cls.__name__)
    parameters: list[str] = []
    for field in cls.FIELDS:
        name = value = field.name
        if field.is_required:
            parameters.append(name)
        elif field.default_factory is not None:
            missing = writer.name("missing", _MISSING)
            parameters.append(f"{name}={missing}")
            factory = writer.name("factory", field.default_factory)
            value = f"{factory}() if {name} is {missing} else {name}"
        else:
            parameters.append(f"{name}={writer.name('default', field.default)}")
        writer.line(f"self.{name} = {value}")
    signature = f"self, *, {', '.join(parameters)}" if parameters else "self"
    if not parameters:
        writer.line("pass")
    init: Callable[..., None] = writer.finish("__init__", signature)
    return init


class Struct(metaclass=StructMeta):
    """A group of fields; objects compare and print by value."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __eq__(self, other: object) -> bool:
        # The shared default of a struct is an instance of a subclass; nothing else is.
        if not (isinstance(other, type(self)) or isinstance(self, type(other))):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable, as with dataclasses

    def __repr__(self) -> str:
        inside = ", ".join(f"{f.name}={_shown(getattr(self, f.name))}" for f in self.FIELDS)
        return f"{type(self).__name__}({inside})"


def _shown(value: Any) -> str:
    """The text of a value; a record payload of megabytes is cut to its first bytes."""
    if not is_buffer(value):
        return repr(value)
    if len(value) <= _SHOWN_BYTES:
        return repr(bytes(value))
    return f"<{len(value)} bytes {bytes(value[:_SHOWN_BYTES])!r}...>"


_SHOWN_BYTES = 48


def struct_fields(cls: type[Struct], version: int) -> list[Field]:
    """The fields that a version carries, in wire order, tagged ones included."""
    return [field for field in cls.FIELDS if version in field.versions]
