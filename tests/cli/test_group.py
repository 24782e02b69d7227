"""`minikafka group` against a live broker."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import CommandLine, line_of, lines_of
from tests.kit.streams_member import join_streams_group, leave_streams_group
from tests.kit.waiting import look_until
from tests.kit.wire import Wire


@pytest.fixture
def group(topic: str) -> str:
    """A group id that no other test uses."""
    return f"g-{topic}"


def reset(cli: CommandLine, group: str, topic: str, *words: str) -> None:
    """Set offsets of a group without members."""
    cli.ok("group", "reset-offsets", group, "--topic", topic, *words, "--execute")


def offsets(cli: CommandLine, group: str) -> dict[int, int | None]:
    document = cli.group(group)
    return {row["partition"]: row["committed_offset"] for row in document["partitions"]}


@contextmanager
def member(cli: CommandLine, group: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    """A consumer in the group that has printed the topic's first record."""
    process = cli.start_consume(topic, "--group", group)
    assert line_of(process)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        cli.finish(process)


def fill(cli: CommandLine, topic: str, counts: dict[int, int]) -> None:
    for partition, count in counts.items():
        cli.ok("produce", topic, "--partition", str(partition), stdin=lines_of(range(count)))


def test_an_empty_group_is_described_with_its_lag(cli: CommandLine, topic: str, group: str) -> None:
    fill(cli, topic, {0: 10, 1: 20})
    reset(cli, group, topic, "--to-offset", "4")
    document = cli.group(group)
    assert document == {
        "group": group,
        "type": "Classic",
        "state": "Empty",
        "epoch": None,
        "assignment_epoch": None,
        "protocol_type": document["protocol_type"],
        "assignor": "",
        "coordinator": 1,
        "lag": 6 + 16,
        "members": [],
        "partitions": [
            {
                "topic": topic,
                "partition": number,
                "committed_offset": committed,
                "metadata": "",
                "log_end_offset": end,
                "lag": end - committed,
                "member": None,
            }
            for number, committed, end in ((0, 4, 10), (1, 4, 20), (2, 0, 0))
        ],
    }
    lines = cli.ok("group", "describe", group).splitlines()
    assert lines[0] == f"{group}  Empty  lag 22  coordinator 1"
    assert lines[1].split() == ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"]
    assert lines[2].split() == [topic, "0", "4", "10", "6", "-"]


def test_groups_are_listed_and_deleted(cli: CommandLine, topic: str, group: str) -> None:
    reset(cli, group, topic, "--to-latest")
    listed = {entry["group"]: entry for entry in cli.json("group", "list")["groups"]}
    assert listed[group]["state"] == "Empty"
    assert set(listed[group]) == {"group", "state", "protocol_type", "type"}
    assert any(line.split()[0] == group for line in cli.ok("group", "list").splitlines())
    stable = cli.json("group", "list", "--state", "Stable")["groups"]
    assert group not in {entry["group"] for entry in stable}
    assert cli.ok("group", "delete", group) == f"deleted {group}\n"
    assert group not in cli.ok("group", "list")


def test_an_unknown_group_comes_with_the_nearest_names(
    cli: CommandLine, topic: str, group: str
) -> None:
    reset(cli, group, topic, "--to-latest")
    for words in (["describe", group.upper()], ["delete", group + "s"]):
        line = cli.fails("group", *words)
        assert line.startswith(f"minikafka group {words[0]}: there is no group {words[1]!r}")
        assert group in line.split("did you mean ")[1]


def test_groups_are_deleted_even_if_others_cannot_be(
    cli: CommandLine, topic: str, group: str
) -> None:
    reset(cli, group, topic, "--to-latest")
    result = cli.run("group", "delete", "zzz-1", group, "zzz-2", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"deleted": [group]}
    assert len(result.stderr.splitlines()) == 2


# --- reset-offsets ------------------------------------------------------------------------------


def test_a_reset_without_execute_only_shows_the_offsets(
    cli: CommandLine, topic: str, group: str
) -> None:
    fill(cli, topic, {0: 5})
    reset(cli, group, topic, "--to-offset", "2")
    result = cli.run("group", "reset-offsets", group, "--all-topics", "--to-latest")
    assert result.exit_code == 0
    assert result.stderr == "nothing was changed; add --execute to reset the offsets\n"
    assert result.stdout.splitlines()[1].split() == [topic, "0", "2", "5"]
    assert offsets(cli, group)[0] == 2


def test_a_reset_document(cli: CommandLine, topic: str, group: str) -> None:
    fill(cli, topic, {1: 3})
    words = ["--topic", f"{topic}:1", "--to-latest"]
    document = cli.json("group", "reset-offsets", group, *words, "--execute")
    assert document == {
        "group": group,
        "executed": True,
        "partitions": [{"topic": topic, "partition": 1, "old_offset": None, "new_offset": 3}],
    }
    assert offsets(cli, group) == {1: 3}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 10, 1: 20}),
        (["--to-offset", "7"], {0: 7, 1: 7}),
        (["--to-offset", "15"], {0: 10, 1: 15}),
        (["--shift-by", "-2"], {0: 3, 1: 3}),
        (["--shift-by", "6"], {0: 10, 1: 11}),
        (["--shift-by", "-99"], {0: 0, 1: 0}),
        (["--to-datetime", "1970-01-01T00:00:00"], {0: 0, 1: 0}),
        (["--to-datetime", "2999-12-31T00:00+02:00"], {0: 10, 1: 20}),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_every_goal_of_a_reset(
    cli: CommandLine, topic: str, group: str, words: list[str], expected: dict[int, int]
) -> None:
    fill(cli, topic, {0: 10, 1: 20})
    reset(cli, group, f"{topic}:0,1", "--to-offset", "5")
    result = cli.run("group", "reset-offsets", group, "--all-topics", *words, "--execute")
    assert result.exit_code == 0, result.stderr
    assert offsets(cli, group) == expected


def test_an_offset_outside_the_log_is_mentioned(cli: CommandLine, topic: str, group: str) -> None:
    fill(cli, topic, {0: 5})
    words = ["--topic", f"{topic}:0", "--to-offset", "50"]
    result = cli.run("group", "reset-offsets", group, *words)
    assert f"{topic}:0 has offsets 0 to 5; using 5 instead of 50" in result.stderr


def test_a_time_between_records_is_found(cli: CommandLine, topic: str, group: str) -> None:
    fill(cli, topic, {0: 3})
    words = ["consume", topic, "--partition", "0", "--from-beginning", "--max-records", "3"]
    stamps = cli.ok(*words, "--format", "{timestamp}").splitlines()
    moment = stamps[2]
    reset(cli, group, f"{topic}:0", "--to-datetime", moment)
    assert offsets(cli, group) == {0: stamps.index(moment)}


def test_impossible_resets_are_explained(cli: CommandLine, topic: str, group: str) -> None:
    words = ["group", "reset-offsets", group]
    line = cli.fails(*words, "--all-topics", "--to-latest")
    assert f"group {group!r} has no committed offsets; name partitions with --topic" in line
    line = cli.fails(*words, "--topic", topic, "--shift-by", "1")
    assert "has no committed offset to shift" in line
    line = cli.fails(*words, "--topic", f"{topic}:3", "--to-latest")
    assert "has no partition 3; it has 3" in line
    line = cli.fails(*words, "--topic", f"{topic[:-1]}", "--to-latest")
    assert f"did you mean {topic}?" in line
    line = cli.fails(*words, "--topic", f"{topic}:x", "--to-latest", exit_code=2)
    assert "--topic takes TOPIC or TOPIC:PARTITION" in line


# --- with members -------------------------------------------------------------------------------


def test_members_of_a_group_are_described(cli: CommandLine, topic: str, group: str) -> None:
    fill(cli, topic, {0: 10})
    with member(cli, group, topic):
        look_until(lambda: offsets(cli, group).get(0) == 10, "the member's commit")
        document = cli.group(group)
        assert document["state"] == "Stable"
        assert document["assignor"] in {"range", "cooperative-sticky"}
        (only,) = document["members"]
        assert only["client_id"] == "minikafka-cli"
        assert only["topics"] == [topic]
        assert only["assignment"] == [{"topic": topic, "partition": n} for n in range(3)]
        assert {row["member"] for row in document["partitions"]} == {only["member"]}
        text = cli.ok("group", "describe", group)
        assert f"{topic}:0,1,2" in text
        assert "assignor" in text.splitlines()[0]


def test_a_group_with_members_can_be_neither_reset_nor_deleted(
    cli: CommandLine, topic: str, group: str
) -> None:
    fill(cli, topic, {0: 10})
    with member(cli, group, topic):
        line = cli.fails("group", "reset-offsets", group, "--topic", topic, "--to-earliest")
        assert f"group {group!r} is " in line
        assert "stop them first" in line
        line = cli.fails("group", "delete", group)
        assert "NON_EMPTY_GROUP" in line
    assert offsets(cli, group)[0] == 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_consume_that_is_stopped_leaves_its_group_immediately(
    cli: CommandLine, topic: str, group: str, number: int
) -> None:
    fill(cli, topic, {0: 1})
    process = cli.start_consume(topic, "--group", group)
    assert line_of(process) == b"0\n"
    process.send_signal(number)
    assert cli.finish(process).exit_code == 128 + number
    assert cli.group(group)["state"] == "Empty"  # it would be Stable until the session times out


# --- streams groups -----------------------------------------------------------------------------


def test_a_streams_group_is_described_with_its_tasks(
    cli: CommandLine, topic: str, group: str
) -> None:
    fill(cli, topic, {0: 4})
    with Wire(cli.bootstrap) as wire:
        join_streams_group(wire, group, topic)
        (listed,) = json.loads(cli.ok("group", "list", "--type", "streams", "--json"))["groups"]
        assert (listed["group"], listed["type"]) == (group, "streams")
        document = cli.group(group)
        assert (document["type"], document["state"]) == ("Streams", "Stable")
        assert (document["assignor"], document["epoch"]) == ("sticky", 1)
        (member,) = document["members"]
        assert (member["process"], member["epoch"]) == ("p", 1)
        assert member["active_tasks"] == ["0_0", "0_1", "0_2"]
        assert member["standby_tasks"] == []
        assert {row["member"] for row in document["partitions"]} == {"m"}
        assert "0_0 0_1 0_2" in cli.ok("group", "describe", group)
        assert "NON_EMPTY_GROUP" in cli.fails("group", "delete", group)
        leave_streams_group(wire, group)
    reset(cli, group, topic, "--to-earliest")
    assert offsets(cli, group)[0] == 0
    cli.ok("group", "delete", group)
    assert group not in cli.ok("group", "list")


def test_a_share_group_is_described_by_both_commands(
    cli: CommandLine, topic: str, group: str
) -> None:
    fill(cli, topic, {0: 3})
    words = ("--share", group, "--from-beginning", "--max-records", "3")
    assert len(cli.ok("consume", topic, *words).splitlines()) == 3
    document = cli.group(group)
    assert (document["type"], document["state"], document["members"]) == ("Share", "Empty", [])
    start = {row["partition"]: row["start_offset"] for row in document["partitions"]}
    assert (start[0], document["lag"]) == (3, 0)
    table = cli.ok("group", "describe", group)
    assert f"{group}  share  Empty  lag 0" in table
    assert table == cli.ok("share-group", "describe", group)
