"""What `minikafka serve` imports before it is ready: half of its start is imports."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from minikafka import testing
from minikafka.testing import Setting

OF_OTHERS = {
    # rooms and libraries that a new broker on its own does not need
    "minikafka.broker.control.interconnect",
    "minikafka.broker.coordinators.groups",
    "minikafka.broker.coordinators.markers",
    "minikafka.broker.coordinators.share_state",
    "minikafka.broker.coordinators.telemetry",
    "minikafka.broker.coordinators.transactions",
    "minikafka.broker.handlers.access",
    "minikafka.broker.replicas.fetch_server",
    "minikafka.broker.replicas.fetcher",
    "minikafka.broker.rpc.client",
    "minikafka.broker.rpc.peers",
    "minikafka.broker.rpc.server",
    "minikafka.broker.security.authentication",
    "minikafka.broker.security.sasl",
    "minikafka.broker.shares",
    "minikafka.coordinator",
    "minikafka.metadata.client_metrics",
    "minikafka.protocol.decoder",
    "minikafka.protocol.encoder",
    "minikafka.security.oauthbearer",
    "minikafka.storage.compaction",
    "minikafka_client",
    "re2",
    "rich",
    "tomllib",
}


def imported_until_ready(folder: Path, settings: dict[str, Setting]) -> set[str]:
    with testing.broker(
        settings,
        directory=folder,
        defaults={},
        control=False,
        environment={"PYTHONPROFILEIMPORTTIME": "1"},
    ) as broker:
        lines = broker.log_path.read_text().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_a_new_broker_imports_no_rooms_that_it_does_not_need(tmp_path: Path) -> None:
    imported = imported_until_ready(tmp_path, {})
    assert {"minikafka.broker.run", "minikafka.broker.net.server", "trio"} <= imported
    assert imported & OF_OTHERS == set()


def test_a_broker_with_users_imports_what_they_log_in_with_before_it_is_ready(
    tmp_path: Path,
) -> None:
    settings: dict[str, Setting] = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    imported = imported_until_ready(tmp_path, settings)
    assert "minikafka.broker.security.sasl" in imported


@pytest.mark.parametrize("name", sorted(OF_OTHERS))
def test_every_name_in_the_list_is_a_modules(name: str) -> None:
    assert find_spec(name) is not None
