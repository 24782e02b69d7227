"""`minikafka quota`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minikafka import testing
from tests.cli.conftest import CommandLine


@pytest.fixture(scope="module")
def own_cli() -> Iterator[CommandLine]:
    """A broker of its own: quotas would slow down the other tests."""
    with testing.broker() as broker:
        yield CommandLine(broker.bootstrap)


def test_quotas_are_set_listed_and_removed(own_cli: CommandLine) -> None:
    own_cli.ok(
        "quota", "set", "--user", "alice", "producer_byte_rate=1e6", "request_percentage=12.5"
    )
    own_cli.ok("quota", "set", "--user", "alice", "--default-client-id", "consumer_byte_rate=2048")
    own_cli.ok("quota", "set", "--default-ip", "connection_creation_rate=20")
    assert own_cli.json("quota", "list") == {
        "quotas": [
            {"ip": None, "limits": {"connection_creation_rate": 20.0}},
            {
                "user": "alice",
                "limits": {"producer_byte_rate": 1e6, "request_percentage": 12.5},
            },
            {"user": "alice", "client_id": None, "limits": {"consumer_byte_rate": 2048.0}},
        ]
    }
    table = own_cli.ok("quota", "list", "--user", "alice").splitlines()
    assert [line.split() for line in table] == [
        ["USER", "CLIENT-ID", "IP", "QUOTA", "LIMIT"],
        ["alice", "-", "-", "producer_byte_rate", "1000000"],
        ["alice", "-", "-", "request_percentage", "12.5"],
        ["alice", "<default>", "-", "consumer_byte_rate", "2048"],
    ]
    own_cli.ok("quota", "remove", "--user", "alice", "producer_byte_rate")
    own_cli.ok("quota", "remove", "--user", "alice", "--default-client-id")
    own_cli.ok("quota", "remove", "--default-ip")
    assert own_cli.json("quota", "list") == {
        "quotas": [{"user": "alice", "limits": {"request_percentage": 12.5}}]
    }
    own_cli.ok("quota", "remove", "--user", "alice")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["set", "producer_byte_rate=1"], "whose quota?"),
        (["set", "--user", "a", "--ip", "::1", "producer_byte_rate=1"], "cannot be for a user"),
        (["set", "--user", "a", "--default-user", "request_percentage=1"], "not both"),
        (["set", "--user", "", "request_percentage=1"], "--default-user"),
        (["set", "--user", "a", "speed=1"], "there is no quota 'speed'"),
        (["set", "--user", "a", "producer_byte_rate=fast"], "takes a number"),
        (["set", "--user", "a", "producer_byte_rate=0"], "greater than 0"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    own_cli: CommandLine, words: list[str], reason: str
) -> None:
    result = own_cli.run("quota", *words)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_what_the_broker_refuses_is_one_line(own_cli: CommandLine) -> None:
    line = own_cli.fails("quota", "set", "--ip", "host.name", "connection_creation_rate=1")
    assert "'host.name' is not an IP address" in line
    assert "no quota for user 'nobody'" in own_cli.fails("quota", "remove", "--user", "nobody")
