"""The Spark sink's use of Kafka, without Spark: on Apache Kafka and on our broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from minikafka_client.sync import AdminClient
from pyspark_minikafka.options import Options
from pyspark_minikafka.sink import protocol
from pyspark_minikafka.sink.errors import LostTransactionError, StaleLogError, UnsupportedWriteError
from pyspark_minikafka.sink.input_schema import InputColumns
from pyspark_minikafka.sink.kafka import RealDriverKafka, RealTaskKafka, transactional_id
from pyspark_minikafka.sink.protocol import Place, Result
from pyspark_minikafka.sink.settings import SinkSettings, stream_settings
from tests.kit.waiting import work_until
from tests.kit.wire import MakeTopic
from tests.spark.sink.reading import values, wait_for_markers

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


@dataclass
class Query:
    """A streaming query that writes to a topic."""

    bootstrap: str
    topic: str
    settings: SinkSettings
    query_id: str
    run_id: str = "run"
    attempts: int = 0

    def task(self, batch_id: int, *rows: str, partition: int = 0, attempt: int = 0) -> Result:
        self.attempts += 1
        beginning = transactional_id(self.settings.sink_id, self.query_id, "")
        unique = protocol.new_id(beginning, batch_id, "x", self.attempts)
        place = Place(self.query_id, self.run_id, batch_id, partition, attempt, unique)
        with RealTaskKafka(self.settings, InputColumns(value=0)) as kafka:
            return protocol.run_task(kafka, place, batches_of(rows))

    def commit(self, batch_id: int, *results: Result, fails: bool = True) -> None:
        with RealDriverKafka(self.settings) as kafka:
            protocol.commit(kafka, batch_id, results, fail_on_data_loss=fails)
        wait_for_markers(self.bootstrap)

    def record(self, *results: Result) -> None:
        """Decide, and die."""
        with RealDriverKafka(self.settings) as kafka:
            kafka.claim(self.query_id).record(protocol.record_of(0, results, None))
        wait_for_markers(self.bootstrap)

    @property
    def values(self) -> list[str]:
        return values(self.bootstrap, self.topic)

    def open(self) -> list[str]:
        """Its transactions that are not decided."""
        with AdminClient(self.bootstrap) as admin:
            listed = admin.list_transactions(states=["Ongoing"])
        return [each[0] for each in listed if each[0].startswith(self.settings.sink_id)]


def batches_of(rows: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    for row in rows:
        yield pa.RecordBatch.from_arrays([pa.array([row])], names=["value"])


@pytest.fixture
def query(bootstrap: str, make_topic: MakeTopic) -> Query:
    return new_query(bootstrap, make_topic(2))


def new_query(bootstrap: str, topic: str, **more: str) -> Query:
    name = f"sink-{topic}"
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "sinkId": name,
        "commitLogTopic": f"{name}-commits",
        **more,
    }
    return Query(bootstrap, topic, stream_settings(Options(options)), f"query-{name}")


def test_batches_are_seen_once_and_every_task_has_an_id(query: Query) -> None:
    """Without two-phase commit; with it, ids are used again."""
    for batch_id in range(3):
        results = [query.task(batch_id, f"{batch_id}-{p}", partition=p) for p in range(2)]
        query.commit(batch_id, *results)
        again = query.task(batch_id, f"{batch_id}-0")
        assert again.part is None
        query.commit(batch_id, again)
    assert query.values == sorted(f"{batch}-{p}" for batch in range(3) for p in range(2))
    with AdminClient(query.bootstrap) as admin:
        listed = [each[0] for each in admin.list_transactions()]
    mine = [name for name in listed if name.startswith(query.settings.sink_id)]
    assert len(mine) == 3 * 2 + 1  # one for the commit log


def test_recorded_transactions_are_committed_by_the_next_driver(query: Query) -> None:
    results = [query.task(0, "a"), query.task(0, "b", partition=1)]
    query.record(*results)
    assert query.values == []
    query.run_id = "next"
    again = query.task(0, "a", "b")
    assert again.part is None
    query.commit(0, again)
    assert query.values == ["a", "b"]


def test_transactions_of_failed_attempts_are_aborted(query: Query) -> None:
    query.task(0, "a")
    query.commit(0, query.task(0, "a", attempt=1))
    assert query.open() == []
    assert query.values == ["a"]


def test_a_failed_batch_is_aborted(query: Query) -> None:
    result = query.task(0, "a")
    with RealDriverKafka(query.settings) as kafka:
        protocol.abort(kafka, 0, [result])
    assert query.open() == []
    query.commit(0, query.task(0, "a"))
    assert query.values == ["a"]


def test_a_recorded_transaction_that_timed_out_is_reported(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    query = new_query(
        bootstrap, make_topic(2), twoPhaseCommit="off", **{"kafka.transaction.timeout.ms": "1000"}
    )
    query.record(query.task(0, "a"))
    work_until(lambda: not query.open(), what="the timeout")
    again = query.task(0, "a")
    with pytest.raises(LostTransactionError, match="1 of its transactions"):
        query.commit(0, again)
    query.commit(0, again, fails=False)
    query.commit(1, query.task(1, "b"))
    assert query.values == ["b"]


def test_a_commit_log_that_is_not_compacted_is_refused(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    query = new_query(bootstrap, make_topic(1), commitLogTopic=make_topic(suffix="-log"))
    result = query.task(0, "a")
    with pytest.raises(UnsupportedWriteError, match=r"cleanup\.policy"):
        query.commit(0, result)


def test_an_open_transaction_of_another_query_in_the_commit_log_hides_nothing(query: Query) -> None:
    settings = query.settings
    other = transactional_id(settings.sink_id, "other", "driver")
    query.commit(0, query.task(0, "a"))
    with RealDriverKafka(settings) as kafka:
        writer = kafka.writer(other, 60_000, is_two_phase=False)
        writer.begin()
        writer.send(settings.commit_log_topic, b"undecided", b"other", partition=0)
        writer.flush()
        query.commit(1, query.task(1, "b"))
        again = query.task(1, "b")
        assert again.part is None
        query.commit(1, again)
        writer.abort()
    assert query.values == ["a", "b"]


def test_a_broker_that_returns_less_of_the_commit_log_is_detected(query: Query) -> None:
    query.commit(0, query.task(0, "a"))
    with RealDriverKafka(query.settings) as kafka:
        record = kafka.newest(query.query_id)
        assert record is not None
        log = kafka.claim(query.query_id)
        log.read_until = 0  # the end of the log, as a leader of long ago may know it
        with pytest.raises(StaleLogError, match="had not returned"):
            log.record(record)
    assert query.open() == []
    query.commit(1, query.task(1, "b"))
    assert query.values == ["a", "b"]
