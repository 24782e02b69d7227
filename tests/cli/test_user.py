"""`minikafka user`, and the users that `minikafka serve` creates."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka import testing
from minikafka_client.errors import AuthenticationError
from minikafka_client.sasl import Plain, ScramSha256, ScramSha512
from minikafka_client.sync import AdminClient
from tests.cli.conftest import CommandLine
from tests.kit.sasl import LISTENERS


@pytest.fixture(scope="module")
def secured() -> Generator[testing.Broker]:
    settings = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    with testing.broker(settings, listen=LISTENERS) as broker:
        yield broker


@pytest.fixture
def line(secured: testing.Broker) -> CommandLine:
    """Commands by the plain listener."""
    return CommandLine(secured.bootstrap_of("PLAINTEXT"))


def logs_in(broker: testing.Broker, mechanism: Plain | ScramSha256 | ScramSha512) -> bool:
    with AdminClient(broker.bootstrap_of("SASL_PLAINTEXT"), sasl=mechanism) as admin:
        try:
            return bool(admin.describe_cluster().brokers)
        except AuthenticationError:
            return False


def password_file(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "password"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


def test_a_user_is_created_listed_changed_and_removed(
    secured: testing.Broker, line: CommandLine, tmp_path: Path
) -> None:
    path = password_file(tmp_path, "alice secret\n")
    created = line.ok("user", "add", "alice", "--password-file", path)
    assert created == "user alice: SCRAM-SHA-256, SCRAM-SHA-512\n"
    for mechanism in (Plain, ScramSha256, ScramSha512):
        assert logs_in(secured, mechanism("alice", "alice secret"))
    assert line.json("user", "list")["users"] == [
        {"user": "alice", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}
    ]
    line.ok(
        *("user", "add", "alice", "--mechanism", "SCRAM-SHA-512", "--iterations", "5000"),
        *("--password-file", "-"),
        stdin="another\n",
    )
    assert logs_in(secured, ScramSha512("alice", "another"))
    assert logs_in(secured, ScramSha256("alice", "alice secret"))
    assert ["alice", "SCRAM-SHA-512", "5000"] in [
        row.split() for row in line.ok("user", "list").splitlines()
    ]
    removed = line.ok("user", "remove", "alice", "--mechanism", "SCRAM-SHA-512")
    assert removed == "user alice: removed SCRAM-SHA-512\n"
    assert not logs_in(secured, ScramSha512("alice", "another"))
    assert line.json("user", "remove", "alice") == {"user": "alice", "removed": ["SCRAM-SHA-256"]}
    assert not logs_in(secured, Plain("alice", "alice secret"))
    assert "RESOURCE_NOT_FOUND" in line.fails("user", "remove", "alice")


def test_a_password_is_made_up(secured: testing.Broker, line: CommandLine) -> None:
    made = line.json("user", "add", "bob", "--generate")
    assert logs_in(secured, ScramSha512("bob", made["password"]))
    shown = line.ok("user", "add", "bob", "--generate").splitlines()[1]
    assert logs_in(secured, ScramSha512("bob", shown.removeprefix("password: ")))


def test_a_password_is_asked_for_twice_and_not_shown(
    secured: testing.Broker, line: CommandLine
) -> None:
    shown = line.ok("user", "add", "carol", stdin="carol secret\ncarol secret\n")
    assert "secret" not in shown
    assert logs_in(secured, ScramSha512("carol", "carol secret"))


def test_a_password_comes_from_the_environment(
    secured: testing.Broker, line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIKAFKA_PASSWORD", "dave secret")
    line.ok("user", "add", "dave")
    assert logs_in(secured, ScramSha512("dave", "dave secret"))


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("secret", 0o640, "users other than its owner"),
        ("", 0o600, "is no password"),
        ("se\0cret", 0o600, "is no password"),
    ],
)
def test_a_password_file_that_is_not_private_or_empty_is_refused(
    line: CommandLine, tmp_path: Path, text: str, mode: int, message: str
) -> None:
    path = password_file(tmp_path, text, mode)
    refused = line.fails("user", "add", "x", "--password-file", path, exit_code=2)
    assert message in refused


def test_a_password_file_must_exist_and_is_not_generated(line: CommandLine) -> None:
    missing = ("user", "add", "x", "--password-file", "/nowhere")
    assert "No such file" in line.fails(*missing, exit_code=2)
    assert "exclude each other" in line.fails(*missing, "--generate", exit_code=2)
    assert "must not be empty" in line.fails("user", "add", "", "--generate", exit_code=2)


def test_the_first_users_are_created_with_the_broker_and_keep_their_passwords(
    tmp_path: Path,
) -> None:
    path = password_file(tmp_path, "the first secret")
    settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    words = ["--user", "admin", "--password-file", path]
    with testing.broker(
        settings, directory=tmp_path / "data", listen=LISTENERS, arguments=words
    ) as broker:
        assert logs_in(broker, ScramSha512("admin", "the first secret"))
        line = CommandLine(broker.bootstrap_of("PLAINTEXT"))
        line.ok("user", "add", "admin", "--password-file", "-", stdin="changed")
        broker.stop()
        broker.start()
        assert logs_in(broker, ScramSha512("admin", "changed"))
        assert "created user 'admin'" in broker.log()
        assert "the first secret" not in broker.log()


def test_a_first_user_needs_a_password(line: CommandLine) -> None:
    refused = line.fails("serve", "--user", "admin", exit_code=2)
    assert "each user needs a password" in refused
