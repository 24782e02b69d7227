"""Consumed records as text: templates and JSON."""

import json

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.record_format import (
    PLACEHOLDER_NAMES,
    compile_format,
    json_line,
    unescape,
)
from minikafka_client import ConsumerRecord

RECORD = ConsumerRecord(
    "orders", 2, 41, 1_357_034_400_123, b"k", b"\xff", (("a", b"1"), ("b", None))
)
TOMBSTONE = RECORD._replace(key=None, value=None, headers=(), timestamp_ms=-1)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{value}", b"\xff\n"),
        ("{topic}/{partition}:{offset}", b"orders/2:41\n"),
        ("{timestamp} {timestamp_ms}", b"2013-01-01T10:00:00.123Z 1357034400123\n"),
        (r"{key}\t{headers}", b"k\ta=1,b=null\n"),
        ("{{{key}}}", b"{k}\n"),
        ("plain", b"plain\n"),
        ("", b"\n"),
        (r"\x41\\n\x7b\x7bkey}}", b"A\\n{key}\n"),
    ],
)
def test_placeholders(template: str, text: bytes) -> None:
    assert compile_format(template, r"\n")(RECORD) == text


def test_null_is_written_as_null() -> None:
    render = compile_format("{key}|{value}|{headers}|{timestamp}|{timestamp_ms}", r"\0")
    assert render(TOMBSTONE) == b"null|null||-|-1\0"


@pytest.mark.parametrize("template", ["{", "}", "{nonsense}", "{}", "{key!r}", "{key:>9}", "{0}"])
def test_unknown_placeholders_are_wrong_usage(template: str) -> None:
    with pytest.raises(click.UsageError, match="--format"):
        compile_format(template, "")


def test_every_placeholder_is_in_the_help() -> None:
    from minikafka.cli.consume import command

    assert command.help is not None
    for name in PLACEHOLDER_NAMES:
        assert f"{{{name}}}" in command.help


@given(st.text())
def test_an_escaped_backslash_is_a_backslash(text: str) -> None:
    assert unescape(text.replace("\\", "\\\\")) == text


def test_a_line_of_json() -> None:
    line = json_line(RECORD)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "timestamp_ms": 1_357_034_400_123,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }


@given(st.binary(), st.none() | st.binary())
def test_json_is_one_line_whatever_the_bytes(value: bytes, key: bytes | None) -> None:
    line = json_line(RECORD._replace(key=key, value=value))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["offset"] == 41
