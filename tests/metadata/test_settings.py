"""Setting values: text in, typed values out, and errors that say what to do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata import settings


def setting(
    kind: settings.SettingType,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> settings.Setting:
    return settings.Setting("a.b", kind, 0, "A setting.", at_least, at_most, choices)


MEMBER = st.text(st.characters(codec="ascii", exclude_characters=", \t\n\r\x0b\x0c"), min_size=1)
VALUES = st.one_of(
    st.tuples(st.just(settings.SettingType.BOOLEAN), st.booleans()),
    st.tuples(st.just(settings.SettingType.INT), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(settings.SettingType.SHORT), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(settings.SettingType.LONG), st.integers(-(2**63), settings.LONG_MAX)),
    st.tuples(
        st.just(settings.SettingType.DOUBLE), st.floats(allow_nan=False, allow_infinity=False)
    ),
    st.tuples(st.just(settings.SettingType.STRING), st.text().map(str.strip)),
    st.tuples(
        st.just(settings.SettingType.LIST),
        st.lists(MEMBER.map(str.strip).filter(bool), max_size=5).map(tuple),
    ),
)


@given(VALUES)
def test_a_rendered_value_parses_to_the_same_value(
    case: tuple[settings.SettingType, settings.Value],
) -> None:
    kind, value = case
    assert settings.parse_setting(setting(kind), settings.render_setting(value)) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (settings.SettingType.BOOLEAN, " TRUE ", True),
        (settings.SettingType.BOOLEAN, "False", False),
        (settings.SettingType.INT, " +7 ", 7),
        (settings.SettingType.DOUBLE, "1e-1", 0.1),
        (settings.SettingType.LIST, " a , b ,, c", ("a", "b", "c")),
        (settings.SettingType.LIST, "", ()),
        (settings.SettingType.STRING, " text ", "text"),
    ],
)
def test_spaces_and_case_are_forgiven_as_in_kafka(
    kind: settings.SettingType, text: str, value: settings.Value
) -> None:
    assert settings.parse_setting(setting(kind), text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (settings.SettingType.BOOLEAN, "yes"),
        (settings.SettingType.INT, ""),
        (settings.SettingType.INT, "1.0"),
        (settings.SettingType.INT, "1_000"),
        (settings.SettingType.INT, "٣"),
        (settings.SettingType.INT, str(2**31)),
        (settings.SettingType.INT, "9" * 400),
        (settings.SettingType.INT, "9" * 5000),
        (settings.SettingType.SHORT, "-32769"),
        (settings.SettingType.LONG, str(2**63)),
        (settings.SettingType.DOUBLE, "nan"),
        (settings.SettingType.DOUBLE, "inf"),
        (settings.SettingType.DOUBLE, "1_0.5"),
    ],
)
def test_an_impossible_text_is_refused(kind: settings.SettingType, text: str) -> None:
    with pytest.raises(settings.InvalidSettingError, match=r"Invalid value .* for setting a\.b"):
        settings.parse_setting(setting(kind), text)


def test_bounds_are_inclusive() -> None:
    bounded = setting(settings.SettingType.INT, 1, 3)
    assert [settings.parse_setting(bounded, text) for text in ("1", "3")] == [1, 3]
    for text in ("0", "4"):
        with pytest.raises(settings.InvalidSettingError, match="between 1 and 3"):
            settings.parse_setting(bounded, text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_without_bounds_takes_every_finite_number(number: float) -> None:
    parsed = settings.parse_setting(setting(settings.SettingType.DOUBLE), repr(number))
    assert isinstance(parsed, float)
    assert math.isfinite(parsed)


@pytest.mark.parametrize("kind", [settings.SettingType.STRING, settings.SettingType.LIST])
def test_only_choices_are_taken(kind: settings.SettingType) -> None:
    limited = setting(kind, choices=("one", "two"))
    assert settings.parse_setting(limited, "two") in ("two", ("two",))
    with pytest.raises(settings.InvalidSettingError, match="one, two"):
        settings.parse_setting(limited, "three")


def test_a_text_that_is_too_long_is_refused_and_not_repeated_in_full() -> None:
    assert settings.parse_setting(
        setting(settings.SettingType.STRING), "x" * settings.VALUE_LENGTH_MAX
    )
    with pytest.raises(settings.InvalidSettingError) as caught:
        settings.parse_setting(
            setting(settings.SettingType.STRING), "x" * (settings.VALUE_LENGTH_MAX + 1)
        )
    assert len(str(caught.value)) < 300


def test_an_unknown_setting_names_its_neighbours() -> None:
    known = {"retention.ms": 1, "retention.bytes": 2}
    assert "did you mean retention.ms" in str(settings.unknown_setting("retention.mss", known))
    assert str(settings.unknown_setting("zzz", known)) == "Unknown setting 'zzz'"
    assert len(str(settings.unknown_setting("z" * 10_000, known))) < 200
