"""Controllers that come back without their data directories."""

from __future__ import annotations

import shutil

import pytest
from click.testing import CliRunner

from minikafka import testing
from minikafka.cli.main import main
from minikafka_client import TopicPartition
from minikafka_client.sync import AdminClient, Producer, Reader
from minikafka_client.types import NewTopic
from tests.kit.waiting import look_until

NEW_DIRECTORY = "voters 2 have new data directories"
FOUNDING = "a new cluster is founded by all of its voters"
ADMITTED = "has admitted this node's new data directory"


def create(cluster: testing.Cluster, topic: str, *replicas: int) -> None:
    with AdminClient(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, replica_assignments={0: replicas})])


def send(cluster: testing.Cluster, topic: str, count: int) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


def values(cluster: testing.Cluster, topic: str, count: int) -> list[bytes | None]:
    with Reader(cluster.bootstrap, {TopicPartition(topic, 0): (0, count)}) as batches:
        return [value for batch in batches for value in batch.values]


def expected(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def lose_directory(cluster: testing.Cluster, node: int) -> None:
    shutil.rmtree(cluster.nodes[node].data_dir)


def test_an_empty_controller_elects_no_leader_without_committed_entries() -> None:
    with testing.cluster(3) as cluster:
        cluster.stop(3)
        create(cluster, "kept", 1, 2)
        send(cluster, "kept", 500)
        cluster.stop(2)
        lose_directory(cluster, 2)
        cluster.stop(1)
        epoch_count = cluster.log(3).count(" leads")
        launched = cluster.launch(3, 2)
        look_until(lambda: NEW_DIRECTORY in cluster.log(3), "node 3 to be denied a vote")
        assert cluster.log(3).count(" leads") == epoch_count
        launched += cluster.launch(1)
        cluster.wait_until_serving(launched)
        assert values(cluster, "kept", 500) == expected(500)
        look_until(lambda: ADMITTED in cluster.log(2), "node 2 to be admitted")
        cluster.stop(1)
        create(cluster, "later", 2, 3)
        send(cluster, "later", 10)
        assert values(cluster, "later", 10) == expected(10)


def test_a_forced_quorum_goes_on_and_refuses_the_log_that_it_left_behind() -> None:
    with testing.cluster(3) as cluster:
        cluster.stop(3)
        create(cluster, "forgotten", 1, 2)
        cluster.stop(2)
        cluster.kill(1)
        lose_directory(cluster, 2)
        data_dir = str(cluster.nodes[2].data_dir)
        command = ["quorum", "admit", "--data-dir", data_dir]
        before = cluster.log(2).count(FOUNDING)
        cluster.launch(2)
        look_until(lambda: cluster.log(2).count(FOUNDING) > before, "node 2 to wait for the others")
        refused = CliRunner().invoke(main, [*command, "--i-accept-data-loss"])
        assert refused.exit_code == 1
        assert "in use" in refused.output or "locked" in refused.output
        cluster.stop(2)
        assert "--i-accept-data-loss" in CliRunner().invoke(main, command).output
        for answer in ("votes from its next start on", "nothing changed"):
            done = CliRunner().invoke(main, [*command, "--i-accept-data-loss"])
            assert answer in done.output
            assert done.exit_code == 0
        cluster.start(2, 3)
        create(cluster, "new", 2, 3)
        with pytest.raises(testing.BrokerStartError):
            cluster.start(1)
        log = cluster.log(1)
        assert "was continued without this node's committed entries" in log
        assert "move this node's data directory away" in log
        assert "Traceback" not in log
