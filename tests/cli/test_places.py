"""The words for places in a topic."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.places import BEGINNING, END, Place, parse_place

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", BEGINNING),
        ("end", END),
        ("0", Place("offset", 0)),
        ("1700000000000", Place("offset", 1_700_000_000_000)),
        ("9999999999999999999", Place("offset", 2**63 - 1)),
        ("-10", Place("from_end", 10)),
        ("@1359619200000", Place("time", 1_359_619_200_000)),
        ("2013-01-31", Place("time", 1_359_590_400_000)),
        ("2013-01-31T08:00", Place("time", 1_359_619_200_000)),
        ("2013-01-31 08:00:00Z", Place("time", 1_359_619_200_000)),
        ("2013-01-31T09:00+01:00", Place("time", 1_359_619_200_000)),
        ("1960-01-01", Place("time", 0)),
        ("-1h", Place("time", NOW_MS - HOUR_MS)),
        ("-1h30m", Place("time", NOW_MS - HOUR_MS * 3 // 2)),
        ("-1.5h", Place("time", NOW_MS - HOUR_MS * 3 // 2)),
        ("-250ms", Place("time", NOW_MS - 250)),
        ("-2d", Place("time", NOW_MS - 48 * HOUR_MS)),
        ("-9999w", Place("time", 0)),
        ("5m ago", Place("time", NOW_MS - HOUR_MS // 12)),
        ("5 min ago", Place("time", NOW_MS - HOUR_MS // 12)),
        ("1h 30s ago", Place("time", NOW_MS - HOUR_MS - 30_000)),
    ],
)
def test_a_place(text: str, place: Place) -> None:
    assert parse_place(text, NOW_MS) == place


@pytest.mark.parametrize(
    "text", ["", "yesterday", "1h", "--5", "-5x", "@", "@-1", "5 ago", "-1hour", "2013-13-01", "٣"]
)
def test_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="is no offset"):
        parse_place(text, NOW_MS)


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)))
def test_a_time_in_iso_form_is_the_same_as_in_ms(moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    milliseconds = round(moment.timestamp() * 1000)
    assert parse_place(moment.isoformat(), NOW_MS) == parse_place(f"@{milliseconds}", NOW_MS)
