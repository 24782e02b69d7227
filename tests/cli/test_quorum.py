"""``minikafka quorum`` on one broker; `tests/faults/test_grown_quorum.py` has several."""

from __future__ import annotations

from tests.cli.conftest import CommandLine


def test_status_shows_the_voters(cli: CommandLine) -> None:
    (replica,) = cli.json("quorum", "status")["replicas"]
    assert (replica["node"], replica["role"], replica["lag"]) == (1, "leader", 0)
    assert len(bytes.fromhex(replica["directory"])) == 16
    head, row = cli.ok("quorum", "status").splitlines()
    assert head.split() == ["NODE", "ROLE", "LOG", "END", "LAG", "CAUGHT", "UP", "DIRECTORY"]
    assert row.split()[:2] == ["1", "leader"]
    assert row.split()[-1] == replica["directory"]


def test_a_broker_that_no_other_node_can_reach_is_told_how_to_change_that(
    cli: CommandLine,
) -> None:
    assert "restart it with --quorum 1@host:port" in cli.fails("quorum", "upgrade")


def test_only_an_observer_can_be_added_and_only_a_voter_removed(cli: CommandLine) -> None:
    assert "node 1 is a voter already" in cli.fails("quorum", "add", "1")
    assert "node 9 does not observe the metadata quorum" in cli.fails("quorum", "add", "9")
    assert "node 9 is not a voter; the voters are 1" in cli.fails("quorum", "remove", "9")
    assert "kraft.version is 0" in cli.fails("quorum", "remove", "1")


def test_an_address_has_a_host_and_a_port(cli: CommandLine) -> None:
    words = ("quorum", "add", "2", "--address", "kafka-2")
    assert "--address takes HOST:PORT" in cli.fails(*words, exit_code=2)
