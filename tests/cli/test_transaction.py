"""`minikafka transaction` against a live broker; what hangs is in `tests/peers/test_hanging.py`."""

from collections.abc import Iterator

import pytest

from minikafka_client import FencedError, TransactionAbortedError
from minikafka_client.sync import Producer
from tests.cli.conftest import CommandLine


@pytest.fixture
def producer(cli: CommandLine, topic: str) -> Iterator[Producer]:
    """Its transactional id is the topic's name."""
    with Producer(cli.bootstrap, transactional_id=topic) as opened:
        yield opened


def states(cli: CommandLine, name: str, *words: str) -> list[str]:
    listed = cli.json("transaction", "list", *words)["transactions"]
    return [one["state"] for one in listed if one["transactional_id"] == name]


def test_transactions_are_listed_and_described(
    cli: CommandLine, topic: str, producer: Producer
) -> None:
    assert states(cli, topic) == ["Empty"]
    with producer.transaction():
        producer.send(topic, b"a", partition=2)
        producer.flush()
        assert states(cli, topic, "--state", "ongoing", "--state", "Empty") == ["Ongoing"]
        assert states(cli, topic, "--state", "Empty") == []
        assert states(cli, topic, "--longer-than", "3600") == []
        (found,) = cli.json("transaction", "describe", topic)["transactions"]
        assert (found["state"], found["timeout_ms"]) == ("Ongoing", 60_000)
        assert found["partitions"] == [{"topic": topic, "partition": 2}]
        assert found["started_at_ms"] > 0
        producer_id = found["producer_id"]
        assert states(cli, topic, "--producer-id", str(producer_id)) == ["Ongoing"]
        assert states(cli, topic, "--producer-id", str(producer_id + 1)) == []
        heading, columns, row = cli.ok("transaction", "describe", topic).splitlines()
        assert heading.startswith(f"{topic}  Ongoing  since 20")
        assert f"producer {producer_id} epoch 0  timeout 60 s  coordinator 1" in heading
        assert columns.split() == ["TOPIC", "PARTITION"]
        assert row.split() == [topic, "2"]
        table = cli.ok("transaction", "list", "--state", "Ongoing").splitlines()
        assert table[0].split() == ["TRANSACTIONAL", "ID", "PRODUCER", "STATE"]
        assert [topic, str(producer_id), "Ongoing"] in map(str.split, table)


def test_a_transaction_is_terminated_and_its_producer_fenced(
    cli: CommandLine, topic: str, producer: Producer
) -> None:
    def write() -> None:
        with producer.transaction():
            producer.send(topic, b"a", partition=0)
            producer.flush()
            stdout = cli.ok("transaction", "terminate", topic)
            assert stdout == f"terminated {topic}: it was Ongoing, in 1 partition\n"

    with pytest.raises((FencedError, TransactionAbortedError)):
        write()
    assert states(cli, topic) in (["CompleteAbort"], ["Empty"])
    (before,) = cli.json("transaction", "terminate", topic)["terminated"]
    assert before["transactional_id"] == topic


def test_unknown_names(cli: CommandLine, topic: str, producer: Producer) -> None:
    assert producer.prepared_transaction is None
    unknown = topic[:-1]
    for words in (
        ("describe", unknown),
        ("terminate", topic, unknown),
        ("complete", unknown, "--stored", ""),
    ):
        line = cli.fails("transaction", *words)
        assert f"there is no transactional id '{unknown}'; did you mean " in line
        assert topic in line
    for command in (("find-hanging", "--topic", unknown), ("abort-hanging", unknown, "0", "0")):
        assert f"there is no topic '{unknown}'" in cli.fails("transaction", *command)
    line = cli.fails("transaction", "list", "--state", "Open", exit_code=2)
    assert "'Open' is not one of 'empty', 'ongoing'" in line
    line = cli.fails("transaction", "complete", topic, "--stored", "7", exit_code=2)
    assert "--stored: '7' is not a prepared transaction" in line


def test_a_transaction_known_to_its_coordinator_is_not_hanging(
    cli: CommandLine, topic: str, producer: Producer
) -> None:
    with producer.transaction():
        producer.send(topic, b"a", partition=1)
        producer.flush()
        assert cli.ok("transaction", "find-hanging", "--topic", topic, "--silent-for", "0") == (
            "no hanging transactions\n"
        )
        words = ("transaction", "abort-hanging", topic, "1", "0", "--silent-for", "0")
        line = cli.fails(*words)
        assert (
            f"no hanging transaction starts at offset 0 of partition 1 of topic '{topic}'" in line
        )
    assert cli.json("transaction", "find-hanging") == {"hanging": []}


def test_two_phase_commit_must_be_enabled(cli: CommandLine, topic: str, producer: Producer) -> None:
    assert producer.prepared_transaction is None
    line = cli.fails("transaction", "complete", topic, "--stored", "1000:7")
    assert "transaction.two.phase.commit.enable=true" in line
