"""How the declared messages of `operations` travel: checked in one place, by their declarations.

A message is a `NamedTuple`; it travels as an array of its fields in the declared order, and so do
the messages in it. Nodes of different versions understand each other as long as
fields are only ever added at the end, with a default: a node ignores the fields that it does not
know and takes the default of those that do not come.

A message is decoded by its annotations: ``int``, ``bool``, ``str``, ``bytes``, an `ErrorCode`,
another message, ``tuple[X, ...]`` (with `AtMost` for its length), or ``X | None``. Checking is left
to mypy where messages are made; nothing is spent on that when they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ...protocol.errors import ErrorCode

_M = TypeVar("_M")
_Decode = Callable[[Any], Any]
_PLAIN: Final = (int, bool, str, bytes)
_ERROR_CODES: Final = {int(one): one for one in ErrorCode}


class MalformedFieldsError(ValueError):
    """A node sent what is not the declared message."""


class AtMost(NamedTuple):
    """How many elements a sequence may have, as an annotation."""

    count_max: int


class Codec(Protocol[_M]):
    """Encodes and decodes one kind of message."""

    def encode(self, message: _M, /) -> Any:
        """The message as msgpack takes it."""
        ...

    def decode(self, fields: Any, /) -> _M:
        """The message as msgpack gave it.

        Raises:
            MalformedFieldsError: it is another one.
        """
        ...


class Row(Generic[_M]):
    """A `NamedTuple` as an array of its fields."""

    def __init__(self, kind: type[_M]) -> None:
        self._kind = kind
        self.decode: Callable[[Any], _M] = self._decode_first

    def _decode_first(self, fields: Any) -> _M:
        """Make the decoder, which a broker without a cluster never needs."""
        self.decode = decode = _decoder(self._kind)
        message: _M = decode(fields)
        return message

    @staticmethod
    def encode(message: _M) -> Any:
        """Nothing to do: msgpack packs every tuple as an array."""
        return message


class Bare(Generic[_M]):
    """A `NamedTuple` of one field as that field alone; it cannot get a second one."""

    def __init__(self, kind: type[_M]) -> None:
        self._kind = kind

    @cached_property
    def _decode(self) -> _Decode:
        ((_, hint),) = get_type_hints(self._kind, include_extras=True).items()
        return _decoder(hint)

    @staticmethod
    def encode(message: _M) -> Any:
        (field,) = cast("tuple[Any]", message)
        return field

    def decode(self, fields: Any) -> _M:
        make = cast("Callable[[Any], _M]", self._kind)
        return make(self._decode(fields))


class AsItIs:
    """Any plain fields; what they mean is declared elsewhere."""

    @staticmethod
    def encode(message: Any) -> Any:
        return message

    decode = encode


class Nothing:
    """A message without content."""

    @staticmethod
    def encode(message: None) -> None:
        return message

    @staticmethod
    def decode(fields: Any) -> None:
        del fields


def _decoder(hint: Any) -> _Decode:
    """The decoder of an annotated type."""
    if hint in _PLAIN:
        return _plain(hint)
    if hint is ErrorCode:
        return error_code_of
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _row(cast("type", hint))
    count_max = 2**32
    if get_origin(hint) is Annotated:
        hint, limit = get_args(hint)
        count_max = limit.count_max
    if get_origin(hint) is tuple:
        element, _ = get_args(hint)
        return _sequence(element, count_max)
    assert get_origin(hint) is UnionType, f"messages have no fields of {hint!r}"
    kind, none = get_args(hint)
    assert none is NoneType, f"messages have no fields of {hint!r}"
    return _optional(_decoder(kind))


def _plain(kind: type) -> _Decode:
    def decode(value: Any) -> Any:
        if type(value) is not kind:
            raise MalformedFieldsError(f"{value!r:.100} where {kind.__name__} belongs")
        return value

    return decode


def error_code_of(value: Any) -> ErrorCode:
    """An error code; one of a newer version is an unknown error.

    Raises:
        MalformedFieldsError: it is not a number.
    """
    if type(value) is not int:
        raise MalformedFieldsError(f"{value!r:.100} where an error code belongs")
    return _ERROR_CODES.get(value, ErrorCode.UNKNOWN_SERVER_ERROR)


def _optional(decode_value: _Decode) -> _Decode:
    return lambda value: None if value is None else decode_value(value)


def _sequence(element: Any, count_max: int) -> _Decode:
    decode_one = _decoder(element)
    plain = {element} if element in _PLAIN else None

    def decode(value: Any) -> tuple[Any, ...]:
        if type(value) is not tuple and type(value) is not list:
            raise MalformedFieldsError(f"{value!r:.100} where a list belongs")
        elements = cast("tuple[Any, ...]", value)
        if len(elements) > count_max:
            raise MalformedFieldsError(f"{len(elements)} elements; at most {count_max} may come")
        if plain is not None and {*map(type, elements)} == plain:
            return tuple(elements)
        return tuple([decode_one(one) for one in elements])

    return decode


def _row(kind: type) -> _Decode:
    hints = [*get_type_hints(kind, include_extras=True).values()]
    decoders = [*map(_decoder, hints)]
    defaults: tuple[Any, ...] = tuple(cast("Any", kind)._field_defaults.values())
    required = len(decoders) - len(defaults)
    new: Any = cast("Any", tuple).__new__

    def decode(value: Any) -> Any:
        if type(value) is not tuple and type(value) is not list:
            raise MalformedFieldsError(f"{value!r:.100} is not a {kind.__name__}")
        fields = cast("tuple[Any, ...]", value)
        present = len(fields)
        if present < required:
            raise MalformedFieldsError(
                f"a {kind.__name__} has at least {required} fields, this one has {present}"
            )
        decoded = [one(field) for one, field in zip(decoders, fields, strict=False)]
        if present < len(decoders):
            decoded += defaults[present - required :]
        return new(kind, decoded)

    return _short_cut(kind, hints, decoders, decode)


def _short_cut(
    kind: type, hints: Sequence[Any], decoders: Sequence[_Decode], decode: _Decode
) -> _Decode:
    """A decoder without a loop for rows whose fields have just the declared types.

    Followers fetch all the time, and a loop over the fields takes twice as long.
    """
    names = [f"_{index}" for index in range(len(hints))]
    checks = ["type(value) is tuple"]
    results: list[str] = []
    for index, (name, hint) in enumerate(zip(names, hints, strict=True)):
        if hint in _PLAIN:
            checks.append(f"type({name}) is {hint.__name__}")
            results.append(name)
        elif _is_sequence(hint):
            checks.append(f"type({name}) is tuple")
            results.append(f"decoders[{index}]({name}) if {name} else {name}")
        else:
            return decode
    fields = "value" if results == names else f"({', '.join(results)},)"
    new = cast("Any", tuple).__new__
    scope: dict[str, Any] = {"decode": decode, "decoders": decoders, "kind": kind, "new": new}
    exec(
        f"""
def short_cut(value):
    try:
        {", ".join(names)}, = value
    except (TypeError, ValueError):
        return decode(value)
    if {" and ".join(checks)}:
        return new(kind, {fields})
    return decode(value)
""",
        scope,
    )
    return cast("_Decode", scope["short_cut"])


def _is_sequence(hint: Any) -> bool:
    return get_origin(get_args(hint)[0] if get_origin(hint) is Annotated else hint) is tuple


class Reply(NamedTuple, Generic[_M]):
    """What an operation answered: a message, and bytes that were not packed."""

    message: _M
    attachments: Sequence[Any] = ()


Respond = Callable[[_M, Sequence[Any]], None]
"""Called once with answer and attachments; when the asking side is gone, nothing happens."""


_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


class Operation(Generic[_Request, _Answer]):
    """A request that one node sends to another, and its answer.

    Attributes:
        name: how it is called on the wire.
        request: how the request travels.
        answer: how the answer travels.
        version: grows by one whenever a message gets a field. It does not travel: the golden files
            are kept by it.
    """

    __slots__ = ("answer", "name", "request", "version")

    def __init__(
        self, name: str, request: Codec[_Request], answer: Codec[_Answer], *, version: int = 1
    ) -> None:
        self.name = name
        self.request = request
        self.answer = answer
        self.version = version


class OneWay(Generic[_M]):
    """A message that has no answer; the attributes are those of `Operation`."""

    __slots__ = ("message", "name", "version")

    def __init__(self, name: str, message: Codec[_M], *, version: int = 1) -> None:
        self.name = name
        self.message = message
        self.version = version
