"""A broker for the tests of the command line, and ways to run commands against it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from click.testing import CliRunner, Result

from minikafka import testing
from minikafka.cli.main import main

STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def nothing_keeps_running() -> Iterator[None]:
    """Kill commands that a failed test has left running."""
    yield
    while STARTED:
        process = STARTED.pop()
        with process:
            if process.poll() is None:
                process.kill()


class Outcome(NamedTuple):
    """The outcome of a command that ran as a process of its own."""

    exit_code: int
    stdout: bytes
    stderr: str


class CommandLine:
    """Runs `minikafka` against one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.environment = {**os.environ, "MINIKAFKA_BOOTSTRAP": bootstrap}

    def run(self, *words: str, stdin: str | bytes | None = None) -> Result:
        """Run a command in this process."""
        runner = CliRunner(env={"MINIKAFKA_BOOTSTRAP": self.bootstrap})
        return runner.invoke(main, words, input=stdin)

    def ok(self, *words: str, stdin: str | bytes | None = None) -> str:
        """Run a command that must succeed; return its stdout."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == 0, f"{words}: {result.stderr}"
        return result.stdout

    def json(self, *words: str, stdin: str | bytes | None = None) -> Any:
        """Run a command with --json that must succeed; return its document."""
        return json.loads(self.ok(*words, "--json", stdin=stdin))

    def fails(self, *words: str, stdin: str | bytes | None = None, exit_code: int = 1) -> str:
        """Run a command that must fail with one line on stderr; return the line."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == exit_code, result.output
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        return lines[0]

    def start(self, *words: str, **settings: Any) -> subprocess.Popen[bytes]:
        """Start a command as a process of its own, all three streams piped."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-m", "minikafka", *words]
        process = subprocess.Popen(command, env=self.environment, **{**pipes, **settings})
        STARTED.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Outcome:
        """Wait until a started command ends."""
        with process:
            stdout, stderr = process.communicate(stdin)
        return Outcome(process.returncode, stdout, stderr.decode())

    def start_consume(self, topic: str, *words: str) -> subprocess.Popen[bytes]:
        """Start `minikafka consume` from the beginning."""
        return self.start("consume", topic, "--from-beginning", *words)

    def group(self, group: str) -> dict[str, Any]:
        """What `group describe` says of a group."""
        (document,) = self.json("group", "describe", group)["groups"]
        described: dict[str, Any] = document
        return described

    def end_offset(self, topic: str) -> int:
        """Sum of the end offsets of a topic's partitions."""
        (document,) = self.json("topic", "describe", topic)["topics"]
        return sum(partition["log_end_offset"] for partition in document["partitions"])


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[testing.Broker]:
    """One broker for all tests; each test has topics of its own."""
    with testing.broker(directory=tmp_path_factory.mktemp("broker")) as live:
        yield live


@pytest.fixture
def cli(broker: testing.Broker) -> CommandLine:
    """The command line, pointed at the broker."""
    return CommandLine(broker.bootstrap)


@pytest.fixture
def topic(cli: CommandLine, request: pytest.FixtureRequest) -> str:
    """A new topic of three partitions, named after the test."""
    name = f"{request.node.originalname}-{crc32(request.node.nodeid.encode()):x}"[-100:]
    cli.ok("topic", "create", name, "--partitions", "3")
    return name


def send(process: subprocess.Popen[bytes], content: bytes) -> None:
    """Write to the stdin of a started command."""
    assert process.stdin is not None
    process.stdin.write(content)
    process.stdin.flush()


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    """The next line on the stdout of a started command."""
    assert process.stdout is not None
    line: bytes = process.stdout.readline()
    return line


def close_stdout(process: subprocess.Popen[bytes]) -> None:
    """Stop reading the stdout of a started command."""
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None


def read_terminal(descriptor: int) -> bytes:
    """Everything shown on a pseudo-terminal until its other end is closed; closes this end."""
    shown = b""
    while True:
        try:
            shown += os.read(descriptor, 10_000)
        except OSError:
            break
    os.close(descriptor)
    return shown


def lines_of(words: Sequence[object]) -> str:
    """The words as lines of text."""
    return "".join(f"{word}\n" for word in words)
