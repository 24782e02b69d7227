"""Restarts under load: acknowledged records are there afterwards, once and in order."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin

from tests.interop.clients import (
    AIOKAFKA,
    CLIENTS,
    CONFLUENT,
    KAFKA_PYTHON,
    aiokafka,
    confluent_kafka,
    consume,
    kafka,
    run_async,
)
from tests.interop.members import PROGRESS, RANGE, Member, group_of, shares, wait_until_assigned
from tests.kit.live import JudgedBroker
from tests.kit.waiting import SECONDS_MAX
from tests.kit.wire import Wire

pytestmark = pytest.mark.interop

ENDS = ("stop", "kill")
RECORDS = 2000
RESTART_EVERY = 1000


@pytest.fixture
def lasting(tmp_path: Path) -> Generator[JudgedBroker]:
    """A broker of the test's own, for it to end as it likes."""
    with JudgedBroker(tmp_path, {"offsets.topic.num.partitions": "4"}) as broker:
        yield broker
        print(f"the broker's log:\n{broker.log()[-10_000:]}")  # noqa: T201  # shown when a test fails


def restart(broker: JudgedBroker, end: str) -> None:
    """Stop or kill the broker, and start it again with the same port and data."""
    if end == "kill":
        broker.kill()
    else:
        broker.stop()
    broker.start()


def value(number: int) -> bytes:
    return b"%d" % number


class Restarts:
    """Counts acknowledgements; restarts the broker in a thread at some of them."""

    def __init__(self, broker: JudgedBroker, end: str) -> None:
        self._broker = broker
        self._end = end
        self._thread: threading.Thread | None = None
        self.acknowledged: dict[bytes, int] = {}

    def acknowledge(self, sent: bytes, offset: int) -> None:
        """A record is acknowledged at an offset."""
        self.acknowledged[sent] = offset
        if len(self.acknowledged) % RESTART_EVERY == RESTART_EVERY // 2:
            self.wait()
            self._thread = threading.Thread(target=restart, args=(self._broker, self._end))
            self._thread.start()

    def wait(self) -> None:
        """Wait for a restart that is under way."""
        if self._thread is not None:
            self._thread.join()


def produce_with_confluent(bootstrap: str, topic: str, restarts: Restarts) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 20,
            "retry.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )

    def report(error: Any, message: Any) -> None:
        assert error is None, error
        restarts.acknowledge(message.value(), message.offset())

    for number in range(RECORDS):
        producer.produce(topic, value(number), partition=0, on_delivery=report)
        producer.poll(0.001)
    assert producer.flush(SECONDS_MAX) == 0


def produce_with_kafka_python(bootstrap: str, topic: str, restarts: Restarts) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        batch_size=1000,
        retry_backoff_ms=20,
        reconnect_backoff_max_ms=200,
    )
    futures = []
    for number in range(RECORDS):
        future = producer.send(topic, value(number), partition=0)
        future.add_callback(
            lambda place, sent=number: restarts.acknowledge(value(sent), place.offset)
        )
        futures.append(future)
        if number % 20 == 0:
            future.get(SECONDS_MAX)
    for future in futures:
        future.get(SECONDS_MAX)
    producer.close()


def produce_with_aiokafka(bootstrap: str, topic: str, restarts: Restarts) -> None:
    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            max_batch_size=1000,
            retry_backoff_ms=20,
        )
        await producer.start()
        pending = []
        for number in range(RECORDS):
            pending.append((number, await producer.send(topic, value(number), partition=0)))
            if number % 20 == 19:
                for sent, delivery in pending:
                    restarts.acknowledge(value(sent), (await delivery).offset)
                pending = []
        for sent, delivery in pending:
            restarts.acknowledge(value(sent), (await delivery).offset)
        await producer.stop()

    run_async(main())


PRODUCE = {
    CONFLUENT: produce_with_confluent,
    KAFKA_PYTHON: produce_with_kafka_python,
    AIOKAFKA: produce_with_aiokafka,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_acknowledged_records_survive_restarts_once_and_in_order(
    client: str, end: str, lasting: JudgedBroker
) -> None:
    with Wire(lasting.bootstrap) as wire:
        wire.create_topic("t", 1, {})
    restarts = Restarts(lasting, end)
    PRODUCE[client](lasting.bootstrap, "t", restarts)
    restarts.wait()
    assert len(restarts.acknowledged) == RECORDS
    received = consume(CONFLUENT, lasting.bootstrap, "t", RECORDS)
    assert [one.value for one in received] == [value(number) for number in range(RECORDS)]
    for one in received:
        # kafka-python and librdkafka say -1 when they only know that it is a duplicate.
        assert restarts.acknowledged[one.value or b""] in {one.offset, -1}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("client", [CONFLUENT, KAFKA_PYTHON])
def test_a_group_resumes_after_a_restart(client: str, end: str, lasting: JudgedBroker) -> None:
    with Wire(lasting.bootstrap) as wire:
        wire.create_topic("t", 4, {})
    producer = confluent_kafka.Producer({"bootstrap.servers": lasting.bootstrap, "log_level": 0})
    sent: list[bytes] = []

    def send(count: int) -> None:
        for _ in range(count):
            sent.append(value(len(sent)))
            producer.produce("t", sent[-1], partition=len(sent) % 4)
        assert producer.flush(SECONDS_MAX) == 0

    send(100)
    quick = {"reconnect_backoff_max_ms": 200}
    with group_of(
        *(Member(client, lasting.bootstrap, "g", ["t"], RANGE, **quick) for _ in range(2))
    ) as members:

        def all_read() -> bool:
            return {value for member in members for _, value in member.received} >= set(sent)

        wait_until_assigned(members, shares(2, 2), "two partitions each")
        PROGRESS.wait_until(all_read, what="the records before the restart")
        for member in members:
            member.expect_the_broker_to_leave()
            member.commit()
        restart(lasting, end)
        send(100)
        PROGRESS.wait_until(all_read, what="the records after the restart")
        wait_until_assigned(members, shares(2, 2), "two partitions each")
    # The log of __consumer_offsets was replayed: no record was read twice.
    received = [value for member in members for _, value in member.received]
    assert Counter(received) == Counter(sent)


@pytest.mark.parametrize("end", ENDS)
def test_topics_settings_and_offsets_are_the_same_after_a_restart(
    end: str, lasting: JudgedBroker
) -> None:
    client = admin.AdminClient({"bootstrap.servers": lasting.bootstrap, "log_level": 0})
    with Wire(lasting.bootstrap) as wire:
        wire.create_topic("kept", 3, {"retention_ms": 12345})
        wire.create_topic("deleted", 3, {})
        wire.delete_topics(["deleted"])
    resource = admin.ConfigResource("topic", "kept")  # type: ignore[attr-defined]  # public

    def seen() -> tuple[object, ...]:
        topics = client.list_topics(timeout=SECONDS_MAX)
        kept = topics.topics["kept"]
        configs = client.describe_configs([resource])[resource].result(SECONDS_MAX)
        return (
            topics.cluster_id,
            sorted(name for name in topics.topics if not name.startswith("__")),
            sorted(kept.partitions),
            configs["retention.ms"].value,
        )

    before = seen()
    assert before[1:] == (["kept"], [0, 1, 2], "12345")
    restart(lasting, end)
    assert seen() == before


def test_many_kills_in_a_row_lose_nothing(lasting: JudgedBroker) -> None:
    with Wire(lasting.bootstrap) as wire:
        wire.create_topic("t", 1, {"segment_bytes": 4000})
    sent = []
    for number in range(5):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": lasting.bootstrap, "log_level": 0}
        )
        for count in range(100):
            sent.append(b"%d-%d" % (number, count))
            producer.produce("t", sent[-1])
        assert producer.flush(SECONDS_MAX) == 0
        restart(lasting, "kill")
    received = consume(KAFKA_PYTHON, lasting.bootstrap, "t", len(sent))
    assert [one.value for one in received] == sent
    assert [one.offset for one in received] == list(range(len(sent)))
