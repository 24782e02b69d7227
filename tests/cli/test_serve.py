"""`minikafka serve`: what it prints, how it stops, what it refuses."""

import os
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from minikafka import testing
from minikafka.cli.main import main
from tests.cli.conftest import CommandLine


def refused(*words: str, exit_code: int) -> str:
    result = CliRunner().invoke(main, ["serve", *words])
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("minikafka")
    return lines[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--quorum", "1@somewhere"], "HOST:PORT"),
        (["--quorum", "a:1"], "id@host:port"),
        (["--quorum", "1@a:1,1@b:1"], "node 1 twice"),
        (
            ["--node-id", "4", "--quorum", "1@a:1", "--set", "process.roles=controller"],
            "names only 1",
        ),
        (["--set", "process.roles=controller"], "name the controllers"),
    ],
)
def test_an_impossible_quorum_is_a_usage_error(words: list[str], expected: str) -> None:
    assert expected in refused("--ephemeral", *words, exit_code=2)


def test_an_internal_listener_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(
            *("--ephemeral", "--listen", "127.0.0.1:0", "--quorum", f"1@127.0.0.1:{port}"),
            exit_code=1,
        )
    assert f"127.0.0.1:{port}" in line
    assert "minikafka.internal.listener" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_ready_is_the_only_line_and_a_signal_ends_it_with_0(tmp_path: Path, number: int) -> None:
    with testing.broker(directory=tmp_path) as broker:
        CommandLine(broker.bootstrap).ok("topic", "create", "kept")
        broker.process.send_signal(number)
        assert os.read(broker.process.fileno(), 1) == b""
        assert broker.stop() == 0
        broker.start()
        assert CommandLine(broker.bootstrap).ok("topic", "list") == "kept\n"


def test_an_ephemeral_broker_leaves_nothing(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with testing.broker(directory=tmp_path) as plain:
        cli = CommandLine(plain.bootstrap)
        cli.environment["TMPDIR"] = str(temporary)
        process = cli.start("serve", "--ephemeral", "--listen", "127.0.0.1:0")
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready: 127.0.0.1:")
        assert len(list(temporary.iterdir())) == 1
        process.terminate()
        assert cli.finish(process).exit_code == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--listen", "localhost"], "An address is HOST:PORT"),
        (["--listen", "localhost:99999"], "'localhost:99999'"),
        (["--advertise", "x"], "An address is HOST:PORT"),
        (["--set", "num.partitions=x"], "num.partitions"),
        (["--set", "num.partitoins=3"], "did you mean num.partitions"),
        (["--ephemeral", "--data-dir", "x"], "exclude each other"),
        (["--config", "no-such-file.toml"], "does not exist"),
    ],
)
def test_wrong_usage(words: list[str], expected: str) -> None:
    assert expected in refused(*words, exit_code=2)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refused("--listen", address, "--data-dir", str(tmp_path / "d"), exit_code=1)
    assert f"cannot listen on {address}" in line


def test_a_directory_in_use_is_named_with_the_process(tmp_path: Path) -> None:
    with testing.broker(directory=tmp_path) as broker:
        line = refused(
            "--listen", "127.0.0.1:0", "--data-dir", str(broker.data_dir), exit_code=1
        )  # fmt: skip
        assert str(broker.pid) in line
    assert str(broker.data_dir) in line


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_broker_can_end_with_its_stdin(cli: CommandLine, way: str) -> None:
    words = ["serve", "--ephemeral", "--listen", "127.0.0.1:0"]
    if way == "option":
        words.append("--until-stdin-closes")
    else:
        cli.environment["MINIKAFKA_UNTIL_STDIN_CLOSES"] = "1"
    process = cli.start(*words)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline().startswith(b"ready: ")
    process.stdin.write(b"read and ignored")
    process.stdin.flush()
    assert process.poll() is None
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait() == 0
