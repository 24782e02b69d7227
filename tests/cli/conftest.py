"""A broker for all tests of the command line, and ways to run a command against it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from click.testing import CliRunner, Result

from minikafka.cli.main import main
from tests.live_broker import LiveBroker

STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def nothing_keeps_running() -> Iterator[None]:
    """End what a failed test has left running."""
    yield
    while STARTED:
        process = STARTED.pop()
        with process:
            if process.poll() is None:
                process.kill()


class Outcome(NamedTuple):
    """What a command did, run as a process of its own."""

    exit_code: int
    stdout: bytes
    stderr: str


class CommandLine:
    """Runs `minikafka` against one broker.

    Attributes:
        bootstrap: where the broker listens.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.environment = {**os.environ, "MINIKAFKA_BOOTSTRAP": bootstrap}

    def run(self, *words: str, stdin: str | bytes | None = None) -> Result:
        """Run a command in this process."""
        runner = CliRunner(env={"MINIKAFKA_BOOTSTRAP": self.bootstrap})
        return runner.invoke(main, words, input=stdin)

    def ok(self, *words: str, stdin: str | bytes | None = None) -> str:
        """Run a command that has to succeed; returns its stdout."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == 0, f"{words}: {result.stderr}"
        return result.stdout

    def json(self, *words: str, stdin: str | bytes | None = None) -> Any:
        """Run a command with --json that has to succeed; returns its document."""
        return json.loads(self.ok(*words, "--json", stdin=stdin))

    def fails(self, *words: str, stdin: str | bytes | None = None, exit_code: int = 1) -> str:
        """Run a command that has to fail with one line on stderr; returns the line."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == exit_code, result.output
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        return lines[0]

    def start(self, *words: str, **settings: Any) -> subprocess.Popen[bytes]:
        """Start a command as a process of its own, all three streams piped."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-m", "minikafka.cli.main", *words]
        process = subprocess.Popen(command, env=self.environment, **{**pipes, **settings})
        STARTED.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Outcome:
        """Wait for the end of a started command."""
        with process:
            stdout, stderr = process.communicate(stdin)
        return Outcome(process.returncode, stdout, stderr.decode())

    def end_offset(self, topic: str) -> int:
        """Sum of the end offsets of a topic's partitions."""
        (document,) = self.json("topic", "describe", topic)["topics"]
        return sum(partition["log_end_offset"] for partition in document["partitions"])


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    """One broker for all tests; each test has topics of its own."""
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with LiveBroker(tmp_path_factory.mktemp("broker"), settings) as live:
        yield live


@pytest.fixture
def cli(broker: LiveBroker) -> CommandLine:
    """The command line, pointed at the broker."""
    return CommandLine(broker.bootstrap)


@pytest.fixture
def topic(cli: CommandLine, request: pytest.FixtureRequest) -> str:
    """A new topic of three partitions, named after the test."""
    name = f"{request.node.originalname}-{crc32(request.node.nodeid.encode()):x}"[-100:]
    cli.ok("topic", "create", name, "--partitions", "3")
    return name


def until(condition: Callable[[], bool], what: str, tries_max: int = 5_000) -> None:
    """Ask again and again; each question takes a while of its own, so nothing sleeps here."""
    for _ in range(tries_max):
        if condition():
            return
    raise AssertionError(f"never: {what}")


def lines_of(words: Sequence[object]) -> str:
    """One word a line, as a pipe would bring them."""
    return "".join(f"{word}\n" for word in words)
