"""Output on stdout: tables, JSON, times."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest

from minikafka.cli import output
from minikafka.cli.failure import one_line, printable, unknown_name
from tests.cli.conftest import read_terminal

ROWS = (
    "from minikafka.cli.output import print_table\n"
    "print_table(['name', 'count'], [['orders', 5], ['\\x1b[31mred', None]], title='the title')\n"
)


def test_a_pipe_gets_aligned_columns_and_no_colour() -> None:
    done = subprocess.run([sys.executable, "-c", ROWS], capture_output=True, check=True)
    assert done.stdout.decode() == (
        "the title\n"
        "NAME         COUNT\n"
        "orders           5\n"
        "\\x1b[31mred      -\n"
    )  # fmt: skip


def test_a_terminal_gets_a_table_in_colour_and_no_foreign_escape() -> None:
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
    environment.pop("NO_COLOR", None)
    subprocess.run([sys.executable, "-c", ROWS], stdout=follower, env=environment, check=True)
    os.close(follower)
    text = read_terminal(leader).decode()
    assert "the title" in text
    assert "\x1b[" in text
    assert "\x1b[31mred" not in text
    assert "\\x1b[31mred" in text


def test_a_table_without_rows_has_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["a", "b"], [])
    assert capsys.readouterr().out == "A  B\n"


def test_bytes_for_json() -> None:
    assert output.json_bytes(None) is None
    assert output.json_bytes("größer".encode()) == "größer"
    assert output.json_bytes(b"\xff\x00") == {"base64": "/wA="}
    assert json.loads(json.dumps(output.json_bytes(b"\x00"))) == "\x00"


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_357_034_400_123, "2013-01-01T10:00:00.123Z"),
        (-1, "-"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (2**62, str(2**62)),
    ],
)
def test_times_are_utc_with_milliseconds(timestamp_ms: int, text: str) -> None:
    assert output.iso_time(timestamp_ms) == text


def test_a_closed_stream_is_not_a_terminal() -> None:
    closed = io.StringIO()
    closed.close()
    assert output.is_terminal(closed) is False
    assert output.is_terminal(None) is False
    assert output.is_terminal(io.StringIO()) is False


def test_counts() -> None:
    assert output.count_of(1, "record") == "1 record"
    assert output.count_of(0, "record") == "0 records"


def test_messages_are_one_line_that_cannot_control_a_terminal() -> None:
    assert one_line("first\n\n  second\n") == "first; second"
    assert printable("\x1b[31m\u202e") == "\\x1b[31m\\u202e"
    assert printable("größe 中") == "größe 中"


def test_the_nearest_names_come_first() -> None:
    known = ["orders", "payments", "Orders-archive", "x"]
    assert "did you mean orders" in str(unknown_name("topic", "ordres", known, "create it"))
    assert "did you mean Orders-archive?" in str(unknown_name("topic", "archive", known, "do"))
    assert str(unknown_name("topic", "zzz", known, "create it")) == (
        "there is no topic 'zzz'; create it"
    )
