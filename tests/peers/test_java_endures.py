"""Java clients survive kills and restarts of our broker: nothing is lost or duplicated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from minikafka_client import TopicPartition
from minikafka_client.sync import AdminClient
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import Wire
from tests.peers.java_clients import JavaClients, JavaConsumer

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 2
PER_CALL = 3_000
CALLS = 4


@pytest.fixture
def broker(tmp_path: Path) -> Generator[JudgedBroker]:
    """A broker of the test's own, whose log shows no bug at the end."""
    with JudgedBroker(tmp_path / "broker", {"group.min.session.timeout.ms": "1000"}) as mortal:
        yield mortal
        mortal.check_log()


@pytest.fixture
def second_java(jars: Path, tmp_path: Path) -> Generator[JavaClients]:
    """Another JVM, for another thread."""
    clients = JavaClients(tmp_path / "second.log")
    yield clients
    clients.close()


class InThread:
    """Does something in a thread; `join` raises what it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as failure:  # noqa: BLE001 - `join` raises it
            self._failure = failure

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(300)
        assert self.is_over, "it hangs"
        if self._failure is not None:
            raise self._failure


def value_of(number: int) -> str:
    return f"value {number}"


def stored(broker: JudgedBroker, topic: str) -> int:
    """How many records are in the topic."""
    where = {TopicPartition(topic, index): -1 for index in range(PARTITIONS)}
    with AdminClient(broker.bootstrap) as admin:
        return sum(found.offset for found in admin.list_offsets(where).values())


def end_it_often(broker: JudgedBroker, topic: str, is_over: Callable[[], bool]) -> int:
    """Kill and stop the broker in turns, each time after it has stored some more; how often."""
    times = 0
    while not is_over():
        before = stored(broker, topic)
        work_until(
            lambda before=before: is_over() or stored(broker, topic) > before + 500,  # type: ignore[misc]  # a default binds it
            what="records to come",
        )
        if not is_over():
            times += 1
            if times % 3:
                broker.kill()
            else:
                broker.stop()
            broker.start()
    return times


def records_of(call: int) -> list[dict[str, Any]]:
    numbers = range(call * PER_CALL, (call + 1) * PER_CALL)
    return [{"partition": number % PARTITIONS, "value": value_of(number)} for number in numbers]


def by_partition(consumer: JavaConsumer) -> list[list[str]]:
    """What it read, in order; a rebalance may repeat what was not committed yet."""
    found: list[dict[str, None]] = [{} for _ in range(PARTITIONS)]
    for record in consumer.received:
        found[int(record["partition"].rpartition(":")[2])].setdefault(record["value"])
    return [list(values) for values in found]


def test_java_producers_and_consumers_continue(
    java: JavaClients, second_java: JavaClients, broker: JudgedBroker, name: str
) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(name, PARTITIONS, {})
    placed: list[dict[str, int]] = []
    total = PER_CALL * CALLS

    def produce() -> None:
        for call in range(CALLS):
            placed.extend(
                java.produce_any(
                    broker.bootstrap,
                    name,
                    records_of(call),
                    linger_ms=1,
                    batch_size=300,
                    reconnect_backoff_max_ms=200,
                )
            )

    consumer = second_java.consumer(
        "endures",
        broker.bootstrap,
        group_id=name,
        topics=[name],
        session_timeout_ms=10_000,
        heartbeat_interval_ms=500,
        reconnect_backoff_max_ms=200,
        max_poll_records=200,
    )

    def consume() -> None:
        while len(consumer.received) < total:
            if consumer.poll():
                consumer.ask("commit")

    with consumer:
        producing, consuming = InThread(produce), InThread(consume)
        ends = end_it_often(broker, name, lambda: producing.is_over)
        producing.join()
        consuming.join()
    assert ends >= 3
    wanted = [[value_of(n) for n in range(index, total, PARTITIONS)] for index in range(PARTITIONS)]
    assert by_partition(consumer) == wanted
    for index in range(PARTITIONS):
        offsets = [place["offset"] for place in placed if place["partition"] == index]
        assert offsets == list(range(total // PARTITIONS))
