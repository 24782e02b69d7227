"""`minikafka group` with groups of the newer protocols: epochs, assignments, and resets."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from minikafka.cli.group import print_members
from minikafka_client import ConfigChange, ConfigResource, ConfigResourceType
from minikafka_client.sync import AdminClient, Consumer, ShareConsumer
from tests.cli.conftest import CommandLine, lines_of
from tests.kit.waiting import look_until, work_until

RECORDS = 6


@pytest.fixture
def group(cli: CommandLine, topic: str) -> str:
    """The id of a group; if it is a share group, it begins with the oldest records."""
    name = f"g-{topic}"
    with AdminClient(cli.bootstrap) as admin:
        resource = ConfigResource(ConfigResourceType.GROUP, name)
        admin.alter_configs({resource: [ConfigChange("share.auto.offset.reset", "earliest")]})
    for partition in range(3):
        cli.ok("produce", topic, "--partition", str(partition), stdin=lines_of(range(2)))
    return name


@contextmanager
def member(cli: CommandLine, kind: str, group: str, topic: str) -> Generator[None]:
    """A member that has read everything, and whose offsets are stored."""
    found: list[object] = []
    poll: Callable[..., Sequence[object]]
    commit: Callable[[], object]
    with ExitStack() as stack:
        if kind == "share":
            queue = stack.enter_context(ShareConsumer(cli.bootstrap, group))
            queue.subscribe([topic])
            poll, commit = queue.poll, queue.commit
        else:
            protocol: Any = kind
            consumer = stack.enter_context(
                Consumer(
                    cli.bootstrap,
                    group_id=group,
                    group_protocol=protocol,
                    auto_offset_reset="earliest",
                )
            )
            consumer.subscribe([topic])
            poll, commit = consumer.poll, consumer.commit
        work_until(
            lambda: len(found) == RECORDS,
            lambda: found.extend(poll(timeout_ms=100)),
            what="all records",
            show=found,
        )
        commit()
        yield


def positions(document: dict[str, Any]) -> dict[int, int]:
    return {
        row["partition"]: row.get("committed_offset", row.get("start_offset"))
        for row in document["partitions"]
    }


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
def test_any_group_is_described_and_reset(
    cli: CommandLine, topic: str, group: str, kind: str
) -> None:
    everything = [{"topic": topic, "partition": number} for number in range(3)]
    reset = ("group", "reset-offsets", group)
    with member(cli, kind, group, topic):
        document = cli.group(group)
        assert (document["type"].lower(), document["state"]) == (kind, "Stable")
        [only] = document["members"]
        assert only["assignment"] == everything
        if kind == "classic":
            assert (document["epoch"], only["epoch"]) == (None, None)
        else:
            assert document["epoch"] == document["assignment_epoch"] == only["epoch"] > 0
        if kind == "consumer":
            assert only["target_assignment"] == everything
        shown = cli.ok("group", "describe", group)
        assert ("EPOCH" in shown) == (kind != "classic")
        assert f"{topic}:0,1,2" in shown
        line = cli.fails(*reset, "--all-topics", "--to-earliest")
        assert "stop them first" in line
    assert positions(cli.group(group)) == dict.fromkeys(range(3), 2)
    cli.ok(*reset, "--topic", f"{topic}:0,1", "--to-offset", "1")  # only shows it
    assert positions(cli.group(group)) == dict.fromkeys(range(3), 2)
    cli.ok(*reset, "--topic", f"{topic}:0,1", "--to-offset", "1", "--execute")
    cli.ok(*reset, "--all-topics", "--shift-by", "-1", "--execute")
    assert positions(cli.group(group)) == {0: 0, 1: 0, 2: 1}


def test_a_share_group_that_has_read_nothing_needs_names(
    cli: CommandLine, topic: str, group: str
) -> None:
    with ShareConsumer(cli.bootstrap, group) as consumer:
        consumer.subscribe([topic])
        look_until(lambda: bool(consumer.assignment), "the assignment")
    reset = ("group", "reset-offsets", group)
    line = cli.fails(*reset, "--topic", topic, "--shift-by", "1")
    assert "has no committed offset to shift" in line
    document = cli.json(*reset, "--topic", topic, "--to-latest", "--execute")
    rows = [(row["old_offset"], row["new_offset"]) for row in document["partitions"]]
    assert rows == [(None, 2)] * 3
    assert positions(cli.group(group)) == dict.fromkeys(range(3), 2)


def test_a_member_that_is_still_moving_shows_where_to(capsys: pytest.CaptureFixture[str]) -> None:
    def place(*numbers: int) -> list[dict[str, object]]:
        return [{"topic": "orders", "partition": number} for number in numbers]

    member = {"member": "m", "epoch": 3, "instance": None, "client_id": "c", "host": "h"}
    print_members([{**member, "assignment": place(0, 1), "target_assignment": place(0)}])
    header, line, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "MEMBER",
        "EPOCH",
        "INSTANCE",
        "CLIENT",
        "HOST",
        "PARTITIONS",
        "TARGET",
    ]
    assert line.split()[-2:] == ["orders:0,1", "orders:0"]
    print_members([{**member, "assignment": place(0), "target_assignment": place(0)}])
    assert "TARGET" not in capsys.readouterr().out
