"""Java's clients of Kafka 4.1 on our broker, alone and in groups with those of 4.4."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.kit.waiting import work_until
from tests.kit.wire import MakeTopic
from tests.peers.java_clients import JavaClients, JavaConsumer
from tests.peers.java_runtime import OLD_CLIENTS_POM
from tests.peers.test_java_clients import wait_until_shared

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 4
RECORDS = [{"partition": n % PARTITIONS, "value": str(n)} for n in range(40)]


@pytest.fixture(scope="module")
def old_java(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[JavaClients]:
    """The clients of 4.1 in a JVM."""
    clients = JavaClients(tmp_path_factory.mktemp("old") / "clients.log", OLD_CLIENTS_POM)
    yield clients
    clients.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_old_and_a_new_member_share_partitions(
    old_java: JavaClients,
    java: JavaClients,
    ours: str,
    name: str,
    make_topic: MakeTopic,
    protocol: str,
) -> None:
    topic = make_topic(PARTITIONS)

    def member(clients: JavaClients, client: str) -> JavaConsumer:
        settings: dict[str, object] = {"group_protocol": protocol}
        if protocol == "classic":
            settings["heartbeat_interval_ms"] = 200
        return clients.consumer(client, ours, group_id=name, topics=[topic], **settings)

    with member(old_java, "old") as old:
        wait_until_shared([old], [4])
        old_java.produce_any(ours, topic, RECORDS)
        work_until(lambda: len(old.received) == len(RECORDS), old.poll, what="all records")
        old.ask("commit")
        with member(java, "new") as new:
            wait_until_shared([old, new], [2, 2])
            java.produce_any(ours, topic, RECORDS)
            work_until(
                lambda: len(old.received) + len(new.received) == 2 * len(RECORDS),
                old.poll,
                new.poll,
                what="the second half",
            )
            assert len(new.received) == len(RECORDS) // 2
        wait_until_shared([old], [4])


def test_old_transactions_are_read(
    old_java: JavaClients, java: JavaClients, ours: str, topic: str
) -> None:
    with old_java.transactions("producer", ours, topic) as producer:
        producer.ask("begin")
        producer.send(topic, b"aborted")
        producer.ask("abort")
        producer.ask("begin")
        producer.send(topic, b"committed")
        producer.ask("commit")
    for clients in (old_java, java):
        with clients.consumer("reader", ours, isolation_level="read_committed") as reader:
            reader.ask("assign", partitions=[f"{topic}:0"])
            reader.poll_until(1)
            assert reader.values == ["committed"]
