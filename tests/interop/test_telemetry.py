"""librdkafka pushes its metrics to our broker when a subscription asks for them (KIP-714)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from minikafka.cli.main import main
from minikafka.protocol.messages import incremental_alter_configs
from tests.interop.clients import confluent_kafka
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import Wire

pytestmark = pytest.mark.slow


def subscribe_to_everything(bootstrap: str, match: str) -> None:
    settings = {"metrics": "*", "interval.ms": "100", "match": match}
    resource = incremental_alter_configs.Resource(
        resource_type=16,
        resource_name="everything",
        configs=[
            incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in settings.items()
        ],
    )
    request = incremental_alter_configs.Request(resources=[resource], validate_only=False)
    with Wire(bootstrap) as wire:
        (answer,) = wire.ask(request, 1, incremental_alter_configs.Response).responses
        assert answer.error_code == 0


def client_metrics(bootstrap: str, *words: str) -> dict[str, object]:
    ran = CliRunner().invoke(main, ["client-metrics", *words, "--json", "--bootstrap", bootstrap])
    assert ran.exit_code == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_librdkafka_pushes_its_metrics(tmp_path: Path) -> None:
    with JudgedBroker(tmp_path) as broker:
        subscribe_to_everything(broker.bootstrap, "client_id=bill.*,client_source_address=127.*")
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap, "client.id": "billing"}
        )
        producer.produce("t", b"value")
        producer.flush(30)

        def pushed() -> bool:
            return bool(client_metrics(broker.bootstrap, "list")["clients"])

        work_until(pushed, lambda: producer.poll(0.05), what="a push")
        shown = client_metrics(broker.bootstrap, "show", "billing")
        assert shown["client_source_address"] == "127.0.0.1"
        metrics = shown["metrics"]
        assert isinstance(metrics, list)
        names = {one["name"] for one in metrics}
        assert "org.apache.kafka.producer.connection.creation.total" in names
