"""`minikafka consume` against a live broker."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import (
    CommandLine,
    close_stdout,
    line_of,
    lines_of,
    read_terminal,
)
from tests.kit.waiting import look_until

ALL = ("--from-beginning", "--timeout", "0.5")


def test_produced_records_are_printed(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin=lines_of(range(3000)))
    words = ["consume", topic, "--from-beginning", "--max-records", "3000"]
    assert sorted(cli.ok(*words).splitlines(), key=int) == [str(n) for n in range(3000)]


def test_one_partition_in_order(cli: CommandLine, topic: str) -> None:
    for partition in ("0", "2"):
        values = lines_of([partition + "a", partition + "b"])
        cli.ok("produce", topic, "--partition", partition, stdin=values)
    words = ["consume", topic, "--from-beginning", "--max-records", "2", "--partition", "2"]
    assert cli.ok(*words) == "2a\n2b\n"


def test_several_topics_at_once(cli: CommandLine, topic: str) -> None:
    cli.ok("topic", "create", f"{topic}-b")
    cli.ok("produce", topic, stdin="a\n")
    cli.ok("produce", f"{topic}-b", stdin="b\n")
    words = ["consume", topic, f"{topic}-b", "--max-records", "2", "--from-beginning"]
    assert sorted(cli.ok(*words).splitlines()) == ["a", "b"]


def test_a_format_with_everything(cli: CommandLine, topic: str) -> None:
    words = ["--key-separator", ":", "--header", "a=1", "--partition", "1"]
    cli.ok("produce", topic, *words, stdin="k:v\nl:w\n")
    template = "{topic}|{partition}|{offset}|{key}|{value}|{headers}"
    words = ["consume", topic, "--from-beginning", "--max-records", "2", "--format", template]
    assert cli.ok(*words, "--delimiter", r"\0") == (f"{topic}|1|0|k|v|a=1\0{topic}|1|1|l|w|a=1\0")


def test_json_lines(cli: CommandLine, topic: str) -> None:
    words = ["--key-separator", ":", "--null", "nil", "--partition", "0"]
    cli.ok("produce", topic, *words, stdin=b"k:\xff\nk:nil\n")
    words = ["consume", topic, "--from-beginning", "--max-records", "2", "--json"]
    first, second = map(json.loads, cli.ok(*words).splitlines())
    assert first == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp_ms": first["timestamp_ms"],
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [],
    }
    assert (second["offset"], second["value"]) == (1, None)


def test_without_from_beginning_only_new_records_are_printed(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin="old\n")
    process = cli.start("consume", topic, "--max-records", "1")

    def answered() -> bool:
        cli.ok("produce", topic, stdin="new\n")
        return process.poll() is not None

    look_until(answered, "a record that came after the consumer")
    outcome = cli.finish(process)
    assert (outcome.exit_code, outcome.stdout) == (0, b"new\n")


def test_a_timeout_ends_it(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin=lines_of("ab"))
    assert sorted(cli.ok("consume", topic, *ALL).split()) == ["a", "b"]
    line = cli.fails("consume", topic, *ALL[1:], "--max-records", "5")
    assert "0 of 5 records arrived, then none for 0.5 s (--timeout)" in line


def test_an_unknown_topic_is_not_created(cli: CommandLine, topic: str) -> None:
    line = cli.fails("consume", topic[:-1])
    assert line == (f"minikafka consume: there is no topic {topic[:-1]!r}; did you mean {topic}?")
    assert topic[:-1] not in cli.ok("topic", "list").splitlines()


def test_an_unknown_partition_is_named(cli: CommandLine, topic: str) -> None:
    line = cli.fails("consume", topic, "--partition", "7")
    assert f"topic {topic!r} has no partition 7; it has 3" in line


# --- groups -------------------------------------------------------------------------------------


def committed(cli: CommandLine, group: str) -> int:
    return sum(row["committed_offset"] or 0 for row in cli.group(group)["partitions"])


def test_a_group_continues_where_it_stopped(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin=lines_of(range(10)))
    words = ["consume", topic, "--group", f"g-{topic}", "--from-beginning", "--max-records"]
    first = cli.ok(*words, "4").split()
    assert committed(cli, f"g-{topic}") == 4
    second = cli.ok(*words, "6").split()
    assert sorted(first + second, key=int) == [str(n) for n in range(10)]
    assert committed(cli, f"g-{topic}") == 10


def test_a_running_group_commits_the_records_it_has_printed(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin=lines_of(range(5)))
    process = cli.start_consume(topic, "--group", f"g-{topic}")
    for _ in range(5):
        line_of(process)
    look_until(lambda: committed(cli, f"g-{topic}") == 5, "five records committed")
    process.send_signal(signal.SIGTERM)
    outcome = cli.finish(process)
    assert outcome.exit_code == 143
    assert outcome.stderr == "minikafka consume: stopped by a signal; 5 records printed\n"


def test_two_members_share_the_topic_and_print_everything_once(
    cli: CommandLine, topic: str
) -> None:
    group = f"g-{topic}"
    members = [cli.start_consume(topic, "--group", group) for _ in range(2)]

    def shared() -> bool:
        groups = cli.json("group", "list")["groups"]
        if group not in {entry["group"] for entry in groups}:
            return False
        document = cli.group(group)
        parts = [len(entry["assignment"]) for entry in document["members"]]
        return document["state"] == "Stable" and sorted(parts) == [1, 2]

    look_until(shared, "a group of two")
    for partition in range(3):
        values = lines_of(range(partition * 100, partition * 100 + 100))
        cli.ok("produce", topic, "--partition", str(partition), stdin=values)
    look_until(lambda: committed(cli, group) == 300, "all records committed")
    printed: list[bytes] = []
    for process in members:
        process.send_signal(signal.SIGINT)
        outcome = cli.finish(process)
        assert outcome.exit_code == 130
        assert outcome.stdout
        printed += outcome.stdout.split()
    assert sorted(map(int, printed)) == list(range(300))


# --- pipes and signals --------------------------------------------------------------------------


def test_ctrl_c_ends_it_with_130_and_the_count(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin="a\n")
    process = cli.start_consume(topic)
    assert line_of(process) == b"a\n"
    process.send_signal(signal.SIGINT)
    outcome = cli.finish(process)
    assert outcome.exit_code == 130
    assert outcome.stderr == "minikafka consume: stopped by a signal; 1 record printed\n"


def test_a_reader_that_leaves_ends_it_quietly(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin=lines_of(range(20_000)))
    process = cli.start_consume(topic)
    assert line_of(process)
    close_stdout(process)
    outcome = cli.finish(process)
    assert (outcome.exit_code, outcome.stderr) == (0, "")


def test_a_reader_that_leaves_is_noticed_without_new_records(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin="only\n")
    process = cli.start_consume(topic)
    assert line_of(process) == b"only\n"
    close_stdout(process)
    outcome = cli.finish(process)
    assert (outcome.exit_code, outcome.stderr) == (0, "")


def test_a_reader_that_does_not_read_does_not_prevent_it_from_stopping(
    cli: CommandLine, topic: str
) -> None:
    group = f"g-{topic}"
    cli.ok("produce", topic, stdin=lines_of(["x" * 100] * 5000))
    process = cli.start_consume(topic, "--group", group)
    assert line_of(process)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert committed(cli, group) < 5000


@pytest.mark.parametrize("words", [["topic", "list"], ["topic", "describe"], ["log", "dump"]])
def test_a_reader_that_never_reads_is_not_an_error(
    cli: CommandLine, topic: str, tmp_path: Path, words: list[str]
) -> None:
    assert topic
    if words[0] == "log":
        (tmp_path / "clean-shutdown").write_text("clean")
        words = [*words, str(tmp_path)]
    reader, writer = os.pipe()
    os.close(reader)
    process = cli.start(*words, stdout=writer)
    os.close(writer)
    outcome = cli.finish(process)
    assert (outcome.exit_code, outcome.stderr) == (0, "")


def test_a_full_disk_behind_stdout_is_a_failure(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin="a\n")
    with open("/dev/full", "wb") as full:
        process = cli.start("consume", topic, "--from-beginning", stdout=full)
        outcome = cli.finish(process)
    assert outcome.exit_code == 1
    assert "No space left on device" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_records_go_to_a_terminal_unchanged(cli: CommandLine, topic: str) -> None:
    cli.ok("produce", topic, stdin=lines_of(["one", "two"]))
    leader, follower = pty.openpty()
    words = ["consume", topic, "--from-beginning", "--max-records", "2"]
    process = cli.start(*words, stdout=follower, stdin=subprocess.DEVNULL)
    os.close(follower)
    shown = read_terminal(leader)
    assert cli.finish(process).exit_code == 0
    assert sorted(shown.split()) == [b"one", b"two"]
