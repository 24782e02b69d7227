"""A value that cannot be encoded is refused with its path, its value, and what it must be."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import EncodeError
from minikafka.protocol.faults import first_fault
from minikafka.protocol.fields import Struct
from tests.protocol.instances import Case, every_case, random_message, seeded
from tests.protocol.test_schema import Everything, Extra, Spot


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"plain": "1"}, "plain is '1'; it must be a number that fits int32"),
        ({"plain": 2**31}, "plain is 2147483648; it must be a number that fits int32"),
        ({"tiny": 200}, "tiny is 200; it must be a number that fits int8"),
        ({"port": -1}, "port is -1; it must be a number that fits uint16"),
        ({"real": "1.5"}, "real is '1.5'; it must be a number that fits float64"),
        ({"key": b"short"}, "key is b'short'; it must be 16 bytes"),
        ({"key": "0123456789abcdef"}, "it must be 16 bytes"),
        ({"text": b"bytes"}, "text is b'bytes'; it must be a str"),
        ({"text": "\ud800"}, "text is not text that UTF-8 can hold"),
        ({"blob": "text"}, "blob is 'text'; it must be bytes"),
        ({"blob": 7}, "blob is 7; it must be bytes"),
        ({"records": 7}, "records is 7; it must be a buffer or None"),
        ({"spot": Extra()}, r"spot is Extra\(level=-1\); it must be a Spot"),
        ({"spot": Spot(x=None)}, "spot.x is None"),  # type: ignore[arg-type]  # the point
        ({"spots": [Spot(x=1), Spot(x=1, name=3)]}, r"spots\[1\].name is 3"),  # type: ignore[arg-type]  # the point
        ({"spots": 3}, "spots is 3; it must be a list"),
        ({"numbers": [1, 2, "3"]}, r"numbers\[2\] is '3'"),
        ({"numbers": [*range(100), 2**40]}, r"numbers\[100\] is 1099511627776"),
        ({"numbers": {1, 2}}, "numbers is {1, 2}; it must be a list"),
        ({"texts": ["a", None]}, r"texts\[1\] is None"),
        ({"keys": [b""]}, r"keys\[0\] is b''; it must be 16 bytes"),
    ],
)
def test_a_value_that_cannot_be_encoded_is_named(
    values: dict[str, Any], complaint: str, version: int
) -> None:
    if complaint.startswith("numbers is {"):
        values = {"numbers": {1, 2} | {str(version)}}
        complaint = "numbers is {.*}; it must be a list"
    message = Everything(**values)
    with pytest.raises(EncodeError, match=f"Everything v{version}: .*{complaint}"):
        message.encode(version)


def test_a_tagged_value_that_cannot_be_encoded_is_named() -> None:
    with pytest.raises(EncodeError, match=r"extra\.level is 300"):
        Everything(extra=Extra(level=300)).encode(2)


def test_a_long_value_is_truncated_in_the_error() -> None:
    with pytest.raises(EncodeError, match=r"text is b'x{90,}\.\.\.; it must be a str") as caught:
        Everything(text=b"x" * 100_000).encode(0)  # type: ignore[arg-type]  # the point
    assert len(str(caught.value)) < 250


def test_a_field_that_was_never_set_is_named() -> None:
    message = Everything.__new__(Everything)
    with pytest.raises(EncodeError, match="Everything v0: yes has no value"):
        message.encode(0)


def test_an_unexplained_failure_is_reported_with_pythons_text() -> None:
    class Odd:
        def __len__(self) -> int:
            raise ValueError("odd payload")

    with pytest.raises(EncodeError, match="Everything v0: odd payload"):
        Everything(records=Odd()).encode(0)


@pytest.mark.parametrize("case", every_case(), ids=str)
def test_a_valid_message_has_no_fault(case: Case) -> None:
    message: Struct = random_message(case, seeded(case))
    assert first_fault(message, case.version) is None


def test_an_error_code_is_a_number_like_any_other() -> None:
    message = Everything(short=ErrorCode.NOT_COORDINATOR)
    assert Everything.decode(0, message.encode_to_bytes(0)).short == 16
