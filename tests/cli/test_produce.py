"""`minikafka produce` against a live broker."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from minikafka import testing
from tests.cli.conftest import CommandLine, lines_of, read_terminal, send
from tests.kit.waiting import look_until


def test_each_line_is_a_record_and_the_count_goes_to_stderr(cli: CommandLine, topic: str) -> None:
    result = cli.run("produce", topic, stdin=lines_of(range(1000)))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith("1000 records acknowledged (acks=all) in ")
    assert cli.end_offset(topic) == 1000


def test_the_last_line_needs_no_line_end(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin="a\nb")
    assert cli.end_offset(topic) == 2


def test_an_empty_stdin_sends_nothing(cli: CommandLine, topic: str) -> None:
    result = cli.run("produce", topic, stdin="")
    assert result.exit_code == 0
    assert result.stderr.startswith("0 records acknowledged")


def test_an_empty_line_is_an_empty_record(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin="\n\n")
    assert cli.end_offset(topic) == 2


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_outcome_as_json(cli: CommandLine, topic: str, acks: str) -> None:
    words = ["produce", topic, "--acks", acks, "--partition", "1"]
    document = cli.json(*words, stdin=lines_of(["one", "two"]))
    last = -1 if acks == "0" else 1
    assert document == {
        "topic": topic,
        "acks": acks,
        "acknowledged": 2,
        "failed": 0,
        "unknown": 0,
        "size_bytes": 6,
        "seconds": document["seconds"],
        "partitions": [
            {
                "partition": 1,
                "records": 2,
                "first_offset": -1 if acks == "0" else 0,
                "last_offset": last,
            }
        ],
    }
    look_until(lambda: cli.end_offset(topic) == 2, "two records in the log")


def dumped(cli: CommandLine, broker: testing.Broker, topic: str, kind: str) -> list[dict[str, Any]]:
    """Entries of one type in the log of a topic's partition 0."""
    path = str(broker.data_dir / f"{topic}-0")
    lines = cli.ok("log", "dump", "--records", "--json", path).splitlines()
    return [entry for entry in map(json.loads, lines) if entry["type"] == kind]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_arrives(
    cli: CommandLine, broker: testing.Broker, topic: str, compression: str
) -> None:
    words = ["produce", topic, "--compression", compression, "--partition", "0"]
    cli.ok(*words, stdin=lines_of(["same"] * 100))
    batches = dumped(cli, broker, topic, "batch")
    assert {batch["compression"] for batch in batches} == {compression}
    assert sum(batch["record_count"] for batch in batches) == 100


def test_keys_headers_and_tombstones(cli: CommandLine, broker: testing.Broker, topic: str) -> None:
    words = ["--key-separator", "=>", "--header", "a=1", "--header", "b=x=y", "--null", "NIL"]
    cli.ok("produce", topic, *words, "--partition", "0", stdin="k=>v=>w\nk=>NIL\n=>\n")
    records = dumped(cli, broker, topic, "record")
    assert [(record["key"], record["value"]) for record in records] == [
        ("k", "v=>w"),
        ("k", None),
        ("", ""),
    ]
    assert records[0]["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": "x=y"}]


def test_a_line_without_the_separator_stops_produce(cli: CommandLine, topic: str) -> None:
    line = cli.fails("produce", topic, "--key-separator", ":", stdin="a:1\nb:2\nc\nd:4\n")
    assert "line 3 has no key separator ':': 'c'" in line
    assert "0 records acknowledged" in line


def test_a_missing_partition_is_named(cli: CommandLine, topic: str) -> None:
    line = cli.fails("produce", topic, "--partition", "3", stdin="a\n")
    assert f"topic {topic!r} has no partition 3; it has 3" in line


def test_a_topic_that_the_broker_creates_is_mentioned(cli: CommandLine) -> None:
    result = cli.run("produce", "brand-new", stdin="a\n")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == (
        "topic 'brand-new' did not exist; the broker has created it"
    )


def test_an_unknown_topic_that_is_not_created_comes_with_the_nearest_names(
    tmp_path: Path,
) -> None:
    with testing.broker({"auto.create.topics.enable": "false"}, directory=tmp_path) as broker:
        cli = CommandLine(broker.bootstrap)
        cli.ok("topic", "create", "payments")
        line = cli.fails("produce", "paymenst", stdin="a\n")
    assert "there is no topic 'paymenst'; did you mean payments?" in line


def test_a_record_that_is_refused_fails_the_command(cli: CommandLine, topic: str) -> None:
    cli.ok("topic", "alter", topic, "--config", "max.message.bytes=1000")
    words = ["produce", topic, "--partition", "0"]
    cli.ok(*words, stdin="small\n")
    line = cli.fails(*words, stdin="x" * 2000 + "\n")
    assert "MESSAGE_TOO_LARGE" in line
    assert "0 records acknowledged (acks=all), 1 failed" in line


def test_files_and_an_empty_stdin_are_read_to_the_end(
    cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    source = tmp_path / "lines"
    source.write_text(lines_of(range(5000)))
    with source.open("rb") as stdin:
        outcome = cli.finish(cli.start("produce", topic, stdin=stdin))
    assert outcome.exit_code == 0, outcome.stderr
    assert cli.end_offset(topic) == 5000
    outcome = cli.finish(cli.start("produce", topic, stdin=subprocess.DEVNULL))
    assert (outcome.exit_code, outcome.stdout) == (0, b"")


def test_a_stdin_that_cannot_be_read_is_named(cli: CommandLine, topic: str, tmp_path: Path) -> None:
    write_only = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    outcome = cli.finish(cli.start("produce", topic, stdin=write_only))
    os.close(write_only)
    assert outcome.exit_code == 1
    assert "cannot read stdin: Bad file descriptor; 0 records acknowledged" in outcome.stderr


def test_closed_streams(cli: CommandLine, topic: str) -> None:
    program = f"{sys.executable} -m minikafka.cli.main"
    for command, exit_code in (
        (f"produce {topic} <&-", 0),
        (f"produce {topic} --json <&- >&-", 0),
        ("topic list >&-", 0),
        (f"consume {topic} --timeout 0.1 >&-", 0),
    ):
        done = subprocess.run(
            ["sh", "-c", f"{program} {command}"], env=cli.environment, capture_output=True
        )
        assert done.returncode == exit_code, done.stderr.decode()
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_in_the_middle_reports_what_was_acknowledged(
    cli: CommandLine, topic: str, number: int, exit_code: int
) -> None:
    process = cli.start("produce", topic)
    send(process, lines_of(range(700)).encode())
    look_until(lambda: cli.end_offset(topic) == 700, "700 records in the log")
    process.send_signal(number)
    outcome = cli.finish(process)
    assert outcome.exit_code == exit_code
    assert outcome.stderr.startswith(
        "minikafka produce: stopped by a signal; 700 records acknowledged (acks=all)"
    )
    assert len(outcome.stderr.splitlines()) == 1


def test_a_signal_while_records_are_in_flight_loses_count_of_none(
    cli: CommandLine, topic: str
) -> None:
    process = cli.start("produce", topic, "--json")
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)

    def keep_writing() -> bool:
        assert process.stdin is not None
        with suppress(BlockingIOError):
            while True:
                os.write(process.stdin.fileno(), b"line\n" * 1000)
        return cli.end_offset(topic) > 0

    look_until(keep_writing, "a record in the log")
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    process.stdin = None
    outcome = cli.finish(process)
    document = json.loads(outcome.stdout)
    assert outcome.exit_code == 130
    assert document["unknown"] == document["failed"] == 0
    assert document["acknowledged"] == cli.end_offset(topic)


def test_ctrl_c_does_not_wait_forever_for_a_dead_broker(tmp_path: Path) -> None:
    with testing.broker(directory=tmp_path) as broker:
        cli = CommandLine(broker.bootstrap)
        cli.ok("topic", "create", "short", "--partitions", "1")
        process = cli.start("produce", "short")
        send(process, b"first\n")
        look_until(lambda: cli.end_offset("short") == 1, "the first record in the log")
        broker.kill()
        send(process, b"second\n")
        process.send_signal(signal.SIGINT)
        outcome = cli.finish(process)
    assert outcome.exit_code == 130
    assert "1 record acknowledged" in outcome.stderr


def test_a_terminal_shows_progress(cli: CommandLine, topic: str) -> None:
    """On a terminal, work that takes more than a second has a progress line."""
    leader, follower = pty.openpty()
    process = cli.start("produce", topic, stderr=follower)
    os.close(follower)
    assert process.stdin is not None
    shown = b""
    while b"acknowledged" not in shown:
        send(process, b"line\n")
        os.set_blocking(leader, False)
        try:
            shown += os.read(leader, 10_000)
        except BlockingIOError:
            cli.end_offset(topic)
    process.stdin.close()
    os.set_blocking(leader, True)
    shown += read_terminal(leader)
    process.stdin = None
    with process:
        process.communicate()
    assert process.returncode == 0
    assert b"producing" in shown
