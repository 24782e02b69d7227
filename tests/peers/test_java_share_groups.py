"""Java's share consumer on our broker (KIP-932): queues, with acknowledgements for each record."""

from __future__ import annotations

import pytest

from tests.interop.clients import Outgoing
from tests.peers.java_clients import JavaClients

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


def send(java: JavaClients, bootstrap: str, topic: str, *values: str) -> None:
    java.produce(bootstrap, topic, [Outgoing(value.encode()) for value in values])


def test_a_share_consumer_reads_and_acknowledges_implicitly(
    java: JavaClients, ours: str, topic: str
) -> None:
    with java.share_consumer("one", ours, group_id=f"g-{topic}", topics=[topic]) as one:
        one.poll()
        send(java, ours, topic, *(str(number) for number in range(100)))
        one.poll_until(100)
        assert one.values == [str(number) for number in range(100)]
