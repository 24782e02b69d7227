"""As many elements as a request may have, in every array of every API: no turn is long.

The broker is a process of its own, as it runs in real life, garbage collections included.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import NamedTuple

import pytest

from minikafka.broker.handlers import API_TABLE
from minikafka.broker.system.turns import LONG_TURN
from minikafka.protocol.api import ApiKey
from minikafka.protocol.messages import api_versions, find_coordinator
from tests.interop.large_requests import PARTITIONS, TOPIC, Attack, attacks
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import Wire

SIZE_BYTES = 1_000_000
PROBE = api_versions.Request(client_software_name="probe", client_software_version="1")


class Target(NamedTuple):
    """A broker, another client of it, and the id of a topic that exists."""

    broker: JudgedBroker
    probe: Wire
    topic_id: bytes


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Generator[Target]:
    folder = tmp_path_factory.mktemp("large")
    with JudgedBroker(folder) as broker, Wire(broker.bootstrap) as probe:
        probe.create_topic(TOPIC, PARTITIONS, {})
        for key_type in (0, 1):
            request = find_coordinator.Request(key_type=key_type, coordinator_keys=[TOPIC])
            probe.ask(request, 4, find_coordinator.Response)
        yield Target(broker, probe, probe.topic(TOPIC).topic_id)


@pytest.mark.parametrize("api_key", list(API_TABLE), ids=lambda key: ApiKey(key).name.lower())
def test_a_request_full_of_elements_is_served_in_short_turns(api_key: int, target: Target) -> None:
    seen = len(target.broker.log())
    for attack in attacks(ApiKey(api_key)):
        send(attack, target)
        fresh = target.broker.log()[seen:]
        long = [line for line in fresh.splitlines() if LONG_TURN in line]
        assert not long, f"{attack}: {long}"


def send(attack: Attack, target: Target) -> None:
    """Send a request; meanwhile another client is served."""
    frame = attack.frame(SIZE_BYTES, target.topic_id)
    is_answered = threading.Event()
    with Wire(target.broker.bootstrap) as wire:

        def attacked() -> None:
            wire.socket.sendall(frame)
            wire.receive_frame()
            is_answered.set()

        sender = threading.Thread(target=attacked)
        sender.start()
        work_until(
            is_answered.is_set,
            lambda: target.probe.ask(PROBE, 3, api_versions.Response),
            lambda: is_answered.wait(0.005),
            what=f"an answer to {attack}",
        )
        sender.join()
