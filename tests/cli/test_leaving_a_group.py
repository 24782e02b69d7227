"""A command that is stopped leaves its group at once; nobody waits for its session to end."""

import signal

import pytest

from tests.cli.conftest import CommandLine


def state_of(cli: CommandLine, group: str) -> str:
    (document,) = cli.json("group", "describe", group)["groups"]
    return str(document["state"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_stopped_consume_has_left_its_group(cli: CommandLine, topic: str, number: int) -> None:
    cli.ok("produce", topic, stdin="a\n")
    process = cli.start("consume", topic, "--group", f"g-{topic}", "--from-beginning")
    assert process.stdout is not None
    assert process.stdout.readline() == b"a\n"
    process.send_signal(number)
    assert cli.finish(process).exit_code == 128 + number
    assert state_of(cli, f"g-{topic}") == "Empty"
