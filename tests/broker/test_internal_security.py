"""Which internal listeners may be opened, and a cluster behind one that is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka import testing
from minikafka.broker.security.internal import internal_security, require_closed
from minikafka.broker.security.tls import TlsOfListener
from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.listeners import listeners_of
from minikafka.broker.settings.topology import topology_of
from minikafka.metadata.settings import InvalidSettingError
from tests.kit.certificates import Certificates
from tests.kit.wire import Wire

SECRET = "the secret that all nodes share"


def check(*assignments: str) -> None:
    config = load_config(None, assignments, {})
    require_closed(topology_of(config), internal_security(config), [])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_a_listener_that_only_this_machine_reaches_needs_nothing(host: str) -> None:
    check(f"controller.quorum.voters=1@{host}:9093")


@pytest.mark.parametrize(
    "assignments",
    [
        ["controller.quorum.voters=1@10.0.0.1:9093"],
        ["controller.quorum.voters=1@127.0.0.1:9093", "minikafka.internal.listener=0.0.0.0:9093"],
        ["controller.quorum.voters=1@127.0.0.1:9093", "minikafka.internal.listener=[::]:9093"],
        ["controller.quorum.voters=7@127.0.0.1:9093", "listeners=0.0.0.0:9092"],
    ],
)
def test_an_open_listener_refuses_to_start_until_there_is_a_secret(
    assignments: list[str], tmp_path: Path
) -> None:
    with pytest.raises(InvalidSettingError, match="chmod 600 secret"):
        check(*assignments)
    check(*assignments, f"minikafka.internal.secret={SECRET}")
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(f"{SECRET}\n")
    check(*assignments, f"minikafka.internal.secret.file={secret}")


def test_a_node_says_so_when_it_starts() -> None:
    settings: dict[str, testing.Setting] = {"controller.quorum.voters": "1@10.0.0.1:9093"}
    with (
        pytest.raises(testing.BrokerStartError, match=r"internal listener 10\.0\.0\.1:9093"),
        testing.broker(settings),
    ):
        pass


def test_without_a_cluster_there_is_no_internal_listener() -> None:
    check("listeners=0.0.0.0:9092")


def test_a_secret_must_be_long_private_and_given_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="openssl rand") as caught:
        check("minikafka.internal.secret=short")
    assert "short'" not in str(caught.value)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o640)
    with pytest.raises(InvalidSettingError, match=f"chmod 600 {secret}"):
        check(f"minikafka.internal.secret.file={secret}")
    secret.chmod(0o600)
    with pytest.raises(InvalidSettingError, match="exclude each other"):
        check(f"minikafka.internal.secret.file={secret}", f"minikafka.internal.secret={SECRET}")


def test_tls_between_nodes_needs_keys_and_an_authority(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    enabled = "minikafka.internal.ssl.enable=true"
    with pytest.raises(InvalidSettingError, match="nothing says which are trusted"):
        check(enabled)
    trusted = f"minikafka.internal.ssl.truststore.location={certificates.trusted}"
    with pytest.raises(InvalidSettingError, match=r"set ssl\.keystore\.location"):
        check(enabled, trusted)
    key = f"minikafka.internal.ssl.keystore.location={certificates.keystore('node')}"
    check(enabled, trusted, key, "controller.quorum.voters=1@10.0.0.1:9093")


def test_clients_with_certificates_must_not_be_nodes(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    key = certificates.keystore("node")
    assignments = [
        "controller.quorum.voters=1@127.0.0.1:9093",
        "listeners=SSL://127.0.0.1:0",
        f"ssl.keystore.location={key}",
        f"ssl.truststore.location={certificates.trusted}",
        "ssl.client.auth=required",
        "minikafka.internal.ssl.enable=true",
        f"minikafka.internal.ssl.keystore.location={key}",
        f"minikafka.internal.ssl.truststore.location={certificates.trusted}",
    ]
    config = load_config(None, assignments, {})
    listeners = [TlsOfListener(config, one) for one in listeners_of(config)]
    with pytest.raises(InvalidSettingError, match="could act as a node"):
        require_closed(topology_of(config), internal_security(config), listeners)


def test_a_cluster_runs_on_a_secret_and_certificates(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    settings: dict[str, testing.Setting] = {
        "minikafka.internal.secret.file": str(secret),
        "minikafka.internal.ssl.enable": True,
        "minikafka.internal.ssl.keystore.location": str(certificates.keystore("node")),
        "minikafka.internal.ssl.truststore.location": str(certificates.trusted),
    }
    with testing.cluster(3, settings) as cluster:
        with Wire(cluster.bootstrap.split(",")[0]) as wire:
            wire.create_topic("t", 3, {})
        cluster.kill(3)
        cluster.start(3)
        logs = [node.log() for node in cluster.nodes.values()]
    assert not any(SECRET in log for log in logs)
