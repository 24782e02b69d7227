"""`minikafka group`, `share-group` and `consume --share`, on Apache Kafka."""

from __future__ import annotations

import pytest
import trio

import minikafka_client as mk
from minikafka_client import sync
from tests.cli.conftest import CommandLine
from tests.kit.wire import MakeTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.test_client_consumes import send_values

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture
def bootstrap(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap


@pytest.fixture
def cli(bootstrap: str) -> CommandLine:
    return CommandLine(bootstrap)


def test_a_share_group_from_its_first_record_to_its_end(
    cli: CommandLine, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    cli.ok("produce", topic, stdin="1\n2\n3\n4\n5\n")
    words = ("consume", topic, "--share", topic, "--from-beginning", "--timeout", "30")
    first = cli.ok(*words, "--max-records", "2").split()
    second = cli.ok(*words, "--max-records", "3").split()
    assert sorted(first + second) == ["1", "2", "3", "4", "5"]
    [group] = cli.json("share-group", "describe", topic)["groups"]
    assert (group["state"], group["type"], group["members"]) == ("Empty", "Share", [])
    assert group["lag"] == 0  # the start offset is stored with the next acknowledgement
    assert topic in {each["group"] for each in cli.json("share-group", "list")["groups"]}
    [listed] = [each for each in cli.json("group", "list")["groups"] if each["group"] == topic]
    assert listed["type"] == "share"
    reset = ("share-group", "reset-offsets", topic, "--all-topics", "--to-earliest")
    changes = cli.json(*reset)
    assert not changes["executed"]
    assert {row["new_offset"] for row in changes["partitions"]} == {0}
    cli.ok(*reset, "--execute")
    [group] = cli.json("group", "describe", topic)["groups"]
    assert {row["start_offset"] for row in group["partitions"]} == {0}
    again = cli.ok(*words, "--max-records", "5").split()
    assert sorted(again) == ["1", "2", "3", "4", "5"]
    with sync.AdminClient(bootstrap) as admin:
        admin.delete_share_group_offsets(topic, [topic])
        assert admin.list_share_group_offsets(topic) == {}
    assert cli.ok("share-group", "delete", topic) == f"deleted {topic}\n"
    assert "there is no group" in cli.run("share-group", "describe", topic).stderr


async def test_groups_of_all_kinds_are_described(
    cli: CommandLine, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    await send_values(bootstrap, topic, b"1")
    async with (
        mk.Consumer(
            bootstrap, group_id=f"{topic}-classic", auto_offset_reset="earliest"
        ) as classic,
        mk.Consumer(
            bootstrap,
            group_id=f"{topic}-new",
            group_protocol="consumer",
            auto_offset_reset="earliest",
        ) as consumer,
        mk.ShareConsumer(bootstrap, f"{topic}-share") as share,
    ):
        for each in (classic, consumer, share):
            await each.subscribe([topic])
        with trio.fail_after(60):
            await classic.poll()
            await consumer.poll()
            while len(share.assignment) < 2:
                await share.poll(timeout_ms=100)

        def describe(kind: str) -> dict[str, object]:
            [group] = cli.json("group", "describe", f"{topic}-{kind}")["groups"]
            [member] = group["members"]
            assert {place["topic"] for place in member["assignment"]} == {topic}
            assert len(member["assignment"]) == 2
            found: dict[str, object] = {**group, "member": member}
            return found

        found = await trio.to_thread.run_sync(describe, "classic")
        assert (found["type"], found["epoch"]) == ("Classic", None)
        found = await trio.to_thread.run_sync(describe, "new")
        assert (found["type"], found["assignor"]) == ("Consumer", "uniform")
        member = found["member"]
        assert isinstance(member, dict)
        assert member["epoch"] == found["epoch"] == consumer.group_metadata().generation_id
        assert member["target_assignment"] == member["assignment"]
        found = await trio.to_thread.run_sync(describe, "share")
        assert (found["type"], found["state"]) == ("Share", "Stable")
        table = await trio.to_thread.run_sync(cli.ok, "group", "describe", f"{topic}-new")
        assert "EPOCH" in table
