"""Setting values: text in, typed values out, and errors that say what to do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata.settings import (
    LONG_MAX,
    VALUE_LENGTH_MAX,
    InvalidSettingError,
    Setting,
    SettingType,
    Value,
    parse_setting,
    render_setting,
    unknown_setting,
)


def setting(
    kind: SettingType,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Setting:
    return Setting("a.b", kind, 0, "A setting.", at_least, at_most, choices)


MEMBER = st.text(st.characters(codec="ascii", exclude_characters=", \t\n\r\x0b\x0c"), min_size=1)
VALUES = st.one_of(
    st.tuples(st.just(SettingType.BOOLEAN), st.booleans()),
    st.tuples(st.just(SettingType.INT), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(SettingType.SHORT), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(SettingType.LONG), st.integers(-(2**63), LONG_MAX)),
    st.tuples(st.just(SettingType.DOUBLE), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(SettingType.STRING), st.text().map(str.strip)),
    st.tuples(
        st.just(SettingType.LIST),
        st.lists(MEMBER.map(str.strip).filter(bool), max_size=5).map(tuple),
    ),
)


@given(VALUES)
def test_what_is_rendered_parses_to_the_same_value(case: tuple[SettingType, Value]) -> None:
    kind, value = case
    assert parse_setting(setting(kind), render_setting(value)) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SettingType.BOOLEAN, " TRUE ", True),
        (SettingType.BOOLEAN, "False", False),
        (SettingType.INT, " +7 ", 7),
        (SettingType.DOUBLE, "1e-1", 0.1),
        (SettingType.LIST, " a , b ,, c", ("a", "b", "c")),
        (SettingType.LIST, "", ()),
        (SettingType.STRING, " text ", "text"),
    ],
)
def test_spaces_and_case_are_forgiven_as_in_kafka(
    kind: SettingType, text: str, value: Value
) -> None:
    assert parse_setting(setting(kind), text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SettingType.BOOLEAN, "yes"),
        (SettingType.INT, ""),
        (SettingType.INT, "1.0"),
        (SettingType.INT, "1_000"),
        (SettingType.INT, "٣"),
        (SettingType.INT, str(2**31)),
        (SettingType.INT, "9" * 400),
        (SettingType.INT, "9" * 5000),
        (SettingType.SHORT, "-32769"),
        (SettingType.LONG, str(2**63)),
        (SettingType.DOUBLE, "nan"),
        (SettingType.DOUBLE, "inf"),
        (SettingType.DOUBLE, "1_0.5"),
    ],
)
def test_an_impossible_text_is_refused(kind: SettingType, text: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"Invalid value .* for setting a\.b"):
        parse_setting(setting(kind), text)


def test_bounds_are_inclusive() -> None:
    bounded = setting(SettingType.INT, 1, 3)
    assert [parse_setting(bounded, text) for text in ("1", "3")] == [1, 3]
    for text in ("0", "4"):
        with pytest.raises(InvalidSettingError, match="between 1 and 3"):
            parse_setting(bounded, text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_without_bounds_takes_every_finite_number(number: float) -> None:
    parsed = parse_setting(setting(SettingType.DOUBLE), repr(number))
    assert isinstance(parsed, float)
    assert math.isfinite(parsed)


@pytest.mark.parametrize("kind", [SettingType.STRING, SettingType.LIST])
def test_only_choices_are_taken(kind: SettingType) -> None:
    limited = setting(kind, choices=("one", "two"))
    assert parse_setting(limited, "two") in ("two", ("two",))
    with pytest.raises(InvalidSettingError, match="one, two"):
        parse_setting(limited, "three")


def test_a_text_that_is_too_long_is_refused_and_not_repeated_in_full() -> None:
    assert parse_setting(setting(SettingType.STRING), "x" * VALUE_LENGTH_MAX)
    with pytest.raises(InvalidSettingError) as caught:
        parse_setting(setting(SettingType.STRING), "x" * (VALUE_LENGTH_MAX + 1))
    assert len(str(caught.value)) < 300


def test_an_unknown_setting_names_its_neighbours() -> None:
    known = {"retention.ms": 1, "retention.bytes": 2}
    assert "did you mean retention.ms" in str(unknown_setting("retention.mss", known))
    assert str(unknown_setting("zzz", known)) == "Unknown setting 'zzz'"
    assert len(str(unknown_setting("z" * 10_000, known))) < 200
