"""`minikafka lab verify` against brokers that ask for TLS and SASL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikafka import testing
from minikafka.cli.main import main
from minikafka.cli.target import BOOTSTRAP_VARIABLE
from minikafka.lab.processes import verify
from minikafka.lab.scenario import Scenario
from minikafka.testing.secure import SecureBroker
from tests.kit.certificates import Certificates

ALONE = ["p.acksall-retries-fly5_t.r1-m1_c.none_f.none@0"]
EVERY_CLIENT = [
    "p.acksall-idem-fly5_t.r3-m2_c.none_f.ack-lost@0",
    "p.acksall-tx-fly5_t.r3-m2_c.none_f.producer-killed@0",
    "p.acksall-idem-fly5_t.r3-m2_c.transaction-rc_f.consumer-killed-between@0",
    "p.acksall-idem-fly5_t.r3-m2_c.after-sync_f.none@0",
]
"""Producers, transactions, groups, and processes that are killed."""

Draw = Callable[[list[str]], None]


@pytest.fixture(autouse=True)
def draw(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Choose the scenarios of the command, which is told nothing by the environment."""

    def choose(tokens: list[str]) -> None:
        def chosen(*_: object) -> Iterator[Scenario]:
            return cycle(map(Scenario.parse, tokens))

        monkeypatch.setattr(verify, "scenarios_for", chosen)

    choose(ALONE)
    monkeypatch.delenv(BOOTSTRAP_VARIABLE, raising=False)
    return choose


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["lab", "verify", *words])


def private(path: Path, content: str) -> Path:
    """A file that only its owner can read."""
    path.touch(0o600)
    path.write_text(content)
    return path


def test_each_client_says_who_it_is(tmp_path: Path, draw: Draw) -> None:
    draw(EVERY_CLIENT)
    certificates = Certificates(tmp_path)
    password = private(tmp_path / "password", "alice-secret\n")
    node = testing.NodeOptions(
        listen="SASL_SSL://127.0.0.1:0",
        arguments=["--user", "alice", "--password-file", str(password)],
    )
    settings = {
        **certificates.server_settings(),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "standard",
        "super.users": "User:alice",
    }
    with testing.cluster([node] * 3, settings) as cluster:
        lines = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
            "ssl.ca.location": certificates.trusted,
        }
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        config = private(tmp_path / "client.properties", text)
        result = run("--config", str(config), "--runs", str(len(EVERY_CLIENT)))
        log = cluster.log(1)
    assert result.exit_code == 0, result.output
    assert f"{len(EVERY_CLIENT)} runs of {len(EVERY_CLIENT)} cells" in result.stdout
    assert "after a bug" not in log


@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def test_each_security_protocol_will_do(kafka_secure_broker: SecureBroker, listener: str) -> None:
    config = kafka_secure_broker.client_properties(listener=listener)
    result = run("--config", str(config), "--runs", "1")
    assert result.exit_code == 0, result.output


def one_line_and_exit_code_2(result: Result) -> str:
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


def changed(config: Path, old: str, new: str) -> str:
    """A copy of a file of properties."""
    text = config.read_text()
    assert old in text
    return str(private(config.with_name("changed.properties"), text.replace(old, new)))


def test_a_wrong_password_is_one_line(kafka_secure_broker: SecureBroker) -> None:
    config = changed(kafka_secure_broker.client_properties("alice"), "alice-secret", "guessed")
    line = one_line_and_exit_code_2(run("--config", config))
    assert "cannot be used" in line
    assert "SASL_AUTHENTICATION_FAILED" in line
    assert "guessed" not in line


def test_an_untrusted_certificate_is_one_line(kafka_secure_broker: SecureBroker) -> None:
    config = kafka_secure_broker.client_properties()
    lines = [line for line in config.read_text().splitlines() if "truststore" not in line]
    without = private(config.with_name("without.properties"), "\n".join(lines))
    line = one_line_and_exit_code_2(run("--config", str(without)))
    assert "no certificate that is trusted" in line


def test_without_a_configuration_a_secure_broker_is_one_line(
    kafka_secure_broker: SecureBroker,
) -> None:
    line = one_line_and_exit_code_2(
        run("--bootstrap", kafka_secure_broker.bootstrap_of("SASL_SSL"))
    )
    assert "cannot be used" in line


def test_who_may_do_nothing_is_told(kafka_secure_broker: SecureBroker) -> None:
    line = run("--config", str(kafka_secure_broker.client_properties("alice")))
    assert line.exit_code == 2
    assert "TOPIC_AUTHORIZATION_FAILED" in line.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("bootstrap.servers=h:1\nsecurty.protocol=SSL", "did you mean 'security.protocol'"),
        ("bootstrap.servers=h:1\nsecurity.protocol=TLS", "it is one of PLAINTEXT, SSL"),
        ("bootstrap.servers=h:1\nrequest.timeout.ms=soon", "it is a number"),
        ("client.id=nobody", "--bootstrap"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str, reason: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text(content)
    assert reason in one_line_and_exit_code_2(run("--config", str(config)))


def test_a_file_that_is_missing_or_that_others_can_read_is_named(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    assert str(config) in one_line_and_exit_code_2(run("--config", str(config)))
    config.write_text("bootstrap.servers=h:1\nsasl.password=secret")
    config.chmod(0o644)
    assert "chmod 600" in one_line_and_exit_code_2(run("--config", str(config)))
