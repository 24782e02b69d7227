"""librdkafka's share consumer (a preview, through confluent-kafka) on our broker (KIP-932)."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from minikafka_client import ConfigChange, ConfigResource, ConfigResourceType
from minikafka_client.sync import AdminClient
from tests.interop.clients import CONFLUENT, Outgoing, produce
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import Wire

confluent: Any = confluent_kafka
"""Its type hints do not know share consumers yet."""

TYPES = confluent.AcknowledgeType


@pytest.fixture
def broker(tmp_path: Path) -> Generator[JudgedBroker]:
    with JudgedBroker(tmp_path) as running:
        with AdminClient(running.bootstrap) as admin:
            group = ConfigResource(ConfigResourceType.GROUP, "g")
            admin.alter_configs({group: [ConfigChange("share.auto.offset.reset", "earliest")]})
        yield running


def test_what_is_released_comes_again_and_what_is_rejected_does_not(broker: JudgedBroker) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.create_topic("t", 1, {})
    values = ["accepted", "released", "rejected"]
    produce(CONFLUENT, broker.bootstrap, "t", [Outgoing(one.encode()) for one in values])
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "g",
        "share.acknowledgement.mode": "explicit",
    }
    consumer = confluent.ShareConsumer(settings)
    consumer.subscribe(["t"])
    received: list[tuple[str, int]] = []
    words = [TYPES.ACCEPT, TYPES.RELEASE, TYPES.REJECT, TYPES.ACCEPT]

    def poll() -> None:
        for message in consumer.poll(0.5):
            assert message.error() is None, message.error()
            consumer.acknowledge(message, words[len(received)])
            received.append((message.value().decode(), message.delivery_count()))

    work_until(lambda: len(received) >= 4, poll, what="four deliveries", show=received)
    consumer.commit_sync()
    assert received == [("accepted", 1), ("released", 1), ("rejected", 1), ("released", 2)]
    consumer.close()
