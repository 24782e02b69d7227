"""Dataclasses that cost nothing to declare.

A subclass of `DataClass` lists its fields as annotations, with defaults::

    class Propose(DataClass):
        payload: bytes
        epoch: int = 0

    Propose(b"...", epoch=3)

It has slots, a constructor, equality and a hash by its fields, a repr, and `replace`; it can be
matched by position, copied and pickled. It never changes. ``kw_only=True`` means what it means for
a dataclass, and type checkers read it as one.

``@dataclass(frozen=True, slots=True)`` writes and compiles six functions and builds the class
twice. That takes 0.4 ms for each class (8 ms for one with 200 fields), and a broker starts with
dozens. Here nothing is compiled before a constructor has been called a few times; most are called
once or never. Use it for what a broker loads when it starts, and a dataclass elsewhere.
"""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, TypeVar, cast, dataclass_transform

_CALLS_BEFORE_COMPILED = 8
"""A call that is not compiled takes a few microseconds, to compile one takes some hundred."""

_T = TypeVar("_T")
_DataClassT = TypeVar("_DataClassT", bound="DataClass")


class _Declared:
    """A default with something about its field."""

    __slots__ = ("about", "default")

    def __init__(self, default: Any, about: Any) -> None:
        self.default = default
        self.about = about


def described(default: _T, about: object) -> _T:
    """The default of a field about which there is something to keep, in `DataClass.ABOUT`."""
    return cast("_T", _Declared(default, about))


@dataclass_transform(frozen_default=True)
class DataClassMeta(type):
    """Turns annotations into slots, and gives the class its constructor."""

    def __new__(  # noqa: D102 - the class says it
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        kw_only: bool = False,
    ) -> Any:
        own = tuple(
            field
            for field, kind in _annotations_in(namespace).items()
            if not str(kind).removeprefix("typing.").startswith("ClassVar")
        )
        base: Any = next((one for one in bases if isinstance(one, DataClassMeta)), None)
        inherited: tuple[str, ...] = () if base is None else base.FIELDS
        defaults: dict[str, Any] = {} if base is None else dict(base.DEFAULTS)
        about: dict[str, Any] = {} if base is None else dict(base.ABOUT)
        for field in own:
            if field in namespace:
                default = namespace.pop(field)
                if type(default) is _Declared:
                    about[field], default = default.about, default.default
                defaults[field] = default
        fields = namespace["FIELDS"] = inherited + own
        namespace["DEFAULTS"] = defaults
        namespace["ABOUT"] = about
        namespace["__slots__"] = own
        namespace["__match_args__"] = () if kw_only else fields
        namespace["_calls_left"] = _CALLS_BEFORE_COMPILED
        # A value without fields equals all others of its class.
        namespace["_read"] = attrgetter(*fields or ("__class__",))
        namespace["__init__"] = _first_inits
        return super().__new__(mcs, name, bases, namespace)


def _annotations_in(namespace: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a class that is being made."""
    if sys.version_info >= (3, 14) and "__annotations__" not in namespace:  # PEP 649
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is None:
            return {}
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.STRING)
    found: dict[str, Any] = namespace.get("__annotations__", {})
    return found


def _first_inits(self: Any, *args: Any, **values: Any) -> None:
    """The constructor of a class that has not been called often, and of wrong calls."""
    cls = cast("Any", type(self))
    by_position = dict(zip(cls.__match_args__, args, strict=False))
    complete = {**cls.DEFAULTS, **by_position, **values}
    is_wrong = (
        len(args) != len(by_position)
        or not by_position.keys().isdisjoint(values)
        or complete.keys() != set(cls.FIELDS)
    )
    if is_wrong or not cls._calls_left:
        cls.__init__ = _compile_init(cls)
        cls.__init__(self, *args, **values)
        return
    cls._calls_left -= 1
    for name, value in complete.items():
        object.__setattr__(self, name, value)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _compile_init(cls: Any) -> Any:
    names: dict[str, Any] = {}
    parameters = ["self"]
    if cls.FIELDS and not cls.__match_args__:
        parameters.append("*")
    lines: list[str] = []
    for field in cls.FIELDS:
        if field in cls.DEFAULTS:
            names[f"default_{field}"] = cls.DEFAULTS[field]
            parameters.append(f"{field}=default_{field}")
        else:
            parameters.append(field)
        # The slot itself can be set, whatever `__setattr__` says.
        names[f"set_{field}"] = getattr(cls, field).__set__
        lines.append(f"    set_{field}(self, {field})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    source = "\n".join([f"def __init__({', '.join(parameters)}):", *(lines or ["    pass"])])
    exec(compile(source, f"<{cls.__qualname__}>", "exec"), names)
    return names["__init__"]


class DataClass(metaclass=DataClassMeta):
    """A group of fields; see the module.

    Attributes:
        FIELDS: the names of all fields, those of base classes first.
        DEFAULTS: the values of fields that need not be given; they are shared.
        ABOUT: what `described` says about fields.
    """

    FIELDS: ClassVar[tuple[str, ...]]
    DEFAULTS: ClassVar[dict[str, Any]]
    ABOUT: ClassVar[dict[str, Any]]
    _read: ClassVar[attrgetter[Any]]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot set {name} to {value!r}: a {type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete {name}: a {type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._read(self) == self._read(other))

    def __hash__(self) -> int:
        return hash(self._read(self))

    def __repr__(self) -> str:
        inside = ", ".join(f"{field}={getattr(self, field)!r}" for field in self.FIELDS)
        return f"{type(self).__qualname__}({inside})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), {field: getattr(self, field) for field in self.FIELDS})


def _restore(cls: type[DataClass], values: dict[str, Any]) -> DataClass:
    return cls(**values)


def replace(one: _DataClassT, /, **changes: Any) -> _DataClassT:
    """A copy in which some fields are different.

    Raises:
        TypeError: it has no such field.
    """
    return type(one)(**{field: getattr(one, field) for field in one.FIELDS} | changes)
