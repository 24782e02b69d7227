"""The fixture itself."""

import pytest

from minikafka_client import AdminClient
from tests.peers.apache_kafka import CLUSTER_ID, ApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


async def test_a_single_node_serves_and_is_its_own_controller(apache_kafka: ApacheKafka) -> None:
    async with AdminClient(apache_kafka.bootstrap) as admin:
        cluster = await admin.describe_cluster()
    assert cluster.cluster_id == CLUSTER_ID
    assert [(each.node_id, f"{each.host}:{each.port}") for each in cluster.brokers] == [
        (1, apache_kafka.bootstrap)
    ]
