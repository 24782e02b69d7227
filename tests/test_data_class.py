"""`DataClass` behaves as a dataclass does, however often its constructor was called."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from minikafka.data_class import DataClass, described, replace


class Point(DataClass):
    """Two numbers."""

    UNIT: ClassVar[str] = "mm"
    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


class Named(Point):
    name: str = ""


class Twin(DataClass):
    x: int
    y: int = 2


class Options(DataClass, kw_only=True):
    size: int = described(1, "in bytes")
    name: str


class Nothing(DataClass):
    pass


class Positive(DataClass):
    value: int

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError(self.value)


@dataclass(frozen=True, slots=True)
class StandardPoint:
    x: int
    y: int = 2


MANY = 20
"""More calls than a constructor takes before it is compiled."""


@pytest.mark.parametrize("call", range(MANY))
def test_fields_are_given_by_position_or_by_name(call: int) -> None:
    assert (Point(1).x, Point(1).y) == (1, 2)
    assert Point(call, 5) == Point(y=5, x=call)
    named = Named(1, name=str(call))
    assert (named.x, named.y, named.name) == (1, 2, str(call))
    assert (Options(name="a").size, Options(name="b", size=3).size) == (1, 3)
    assert Point(3).sum == 5


@pytest.mark.parametrize("calls_before", [0, MANY])
@pytest.mark.parametrize(
    ("args", "values"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((), {"y": 1})],
    ids=str,
)
def test_wrong_arguments_are_refused_as_by_a_dataclass(
    args: tuple[int, ...], values: dict[str, int], calls_before: int
) -> None:
    class Fresh(DataClass):
        x: int
        y: int = 2

    for _ in range(calls_before):
        Fresh(1)
    with pytest.raises(TypeError) as expected:
        StandardPoint(*args, **values)
    with pytest.raises(TypeError) as refused:
        Fresh(*args, **values)
    assert str(refused.value) == str(expected.value).replace("StandardPoint.", "")
    assert Fresh(1).y == 2


def test_what_must_be_named_cannot_be_given_by_position() -> None:
    make: Any = Options
    with pytest.raises(TypeError, match="positional"):
        make(1, "a")


def test_values_of_one_class_with_the_same_fields_are_equal() -> None:
    assert Point(1) == Point(1, 2)
    assert hash(Point(1)) == hash(Point(1, 2))
    assert Point(1) != Point(2)
    assert len({Point(1), Point(1), Point(3), Nothing(), Nothing()}) == 3
    other: object = Twin(1)
    assert Point(1) != other


def test_a_value_does_not_change() -> None:
    point: Any = Point(1)
    with pytest.raises(AttributeError, match="a Point is frozen"):
        point.x = 2
    with pytest.raises(AttributeError, match="a Point is frozen"):
        del point.x
    assert point == Point(1)


def test_it_is_matched_by_position_and_shown_with_its_fields() -> None:
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)
    assert repr(Named(1, name="a")) == "Named(x=1, y=2, name='a')"
    assert repr(Nothing()) == "Nothing()"


def test_a_copy_may_differ() -> None:
    assert replace(Named(1), name="a") == Named(1, 2, "a")
    with pytest.raises(TypeError, match="z"):
        replace(Point(1), z=3)


@pytest.mark.parametrize("value", [Named(1, name="a"), Options(name="b"), Nothing()])
def test_it_is_copied_and_pickled(value: DataClass) -> None:
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_a_class_knows_its_fields() -> None:
    assert Named.FIELDS == ("x", "y", "name")
    assert Named.DEFAULTS == {"y": 2, "name": ""}
    assert Options.ABOUT == {"size": "in bytes"}
    assert Point.UNIT == "mm"


@pytest.mark.parametrize("call", range(MANY))
def test_what_a_class_checks_is_checked_in_every_call(call: int) -> None:
    assert Positive(call + 1).value == call + 1
    with pytest.raises(ValueError, match="0"):
        Positive(0)
