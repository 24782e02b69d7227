"""``--config client.properties`` and ``-X`` of the commands that talk to brokers."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from minikafka.cli.target import Target
from tests.cli.conftest import CommandLine
from tests.cli.test_target import run_failing


def target_of(*words: str) -> Target:
    """The target that a command gets from its words."""
    seen: list[Target] = []

    def look(target: Target) -> BaseException:
        seen.append(target)
        return KeyboardInterrupt()

    result = run_failing(look, list(words))
    assert seen, result.stderr
    return seen[0]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=there:9093\nclient.id=mine\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=alice-secret\n"
    )
    file.chmod(0o600)
    return file


def test_a_file_says_where_and_how_to_connect(config: Path) -> None:
    target = target_of("--config", str(config))
    assert target.bootstrap == "there:9093"
    assert target.connection.get("client_id") == "mine"
    assert target.connection.get("sasl") is not None
    assert "alice-secret" not in repr(target)


def test_the_command_line_comes_before_the_file(config: Path) -> None:
    words = ("--config", str(config), "--bootstrap", "here:1", "-X", "client.id=other")
    target = target_of(*words)
    assert (target.bootstrap, target.connection.get("client_id")) == ("here:1", "other")


def test_librdkafkas_names_are_known() -> None:
    target = target_of("-X", "bootstrap.servers=a:1", "-X", "security.protocol=ssl")
    assert isinstance(target.connection.get("ssl_context"), ssl.SSLContext)


def test_no_secret_can_be_given_where_others_see_it() -> None:
    result = run_failing(lambda _: KeyboardInterrupt(), ["-X", "sasl.password=alice-secret"])
    assert result.exit_code == 2
    assert "others could see it" in result.stderr
    assert "alice-secret" not in result.output


def test_a_file_with_secrets_that_others_can_read_is_refused(config: Path) -> None:
    config.chmod(0o644)
    result = run_failing(lambda _: KeyboardInterrupt(), ["--config", str(config)])
    assert result.exit_code == 1
    assert "chmod 600" in result.stderr
    assert "alice-secret" not in result.output


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("securty.protocol=SSL", "did you mean 'security.protocol'"),
        ("security.protocol=TLS", "it is one of PLAINTEXT, SSL"),
        ("request.timeout.ms=soon", "request.timeout.ms='soon'; it is a number"),
    ],
)
def test_a_wrong_property_is_wrong_usage(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(line)
    result = run_failing(lambda _: KeyboardInterrupt(), ["--config", str(file)])
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    result = run_failing(lambda _: KeyboardInterrupt(), ["--config", str(tmp_path / "nowhere")])
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


def test_a_topic_is_made_through_a_file(cli: CommandLine, tmp_path: Path) -> None:
    host, _, port = cli.bootstrap.rpartition(":")
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={host}:{port}\nclient.id=from-file\n")
    cli.ok("topic", "create", "of-a-file", "--config", str(file))
    assert "of-a-file" in cli.ok("topic", "list", "--config", str(file))
