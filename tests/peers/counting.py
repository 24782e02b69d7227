"""An application of Kafka Streams (`java/streams/Counting.java`), and what it is judged by.

The topology counts words: input, repartition topic, store with a changelog topic, output. It
writes every count, so exactly once means: for each word the committed output is 1, 2, 3, ...
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from minikafka.testing import Cluster
from minikafka_client import NewTopic, TopicPartition
from minikafka_client.sync import AdminClient, Consumer, Producer
from tests.kit.waiting import work_until
from tests.peers.java_programs import JavaProgram, write_properties

PARTITIONS = 3
WORDS = 40
TIMES_IN_A_PART = 25


class Counted:
    """Words that go in, and the committed counts that come out."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer, self._consumer = producer, consumer
        self.sent = 0
        self.counts: defaultdict[str, list[int]] = defaultdict(list)

    def send_a_part(self) -> None:
        """Every word, so and so often."""
        for _ in range(TIMES_IN_A_PART):
            for word in range(WORDS):
                self._producer.send("words", b"word %d" % word, key=b"%d" % self.sent)
                self.sent += 1
        self._producer.flush()

    def read(self) -> None:
        for record in self._consumer.poll(timeout_ms=100):
            assert record.key is not None
            assert record.value is not None
            self.counts[record.key.decode()].append(int.from_bytes(record.value, "big"))

    @property
    def seen(self) -> int:
        return sum(map(len, self.counts.values()))

    def check(self) -> None:
        """Fail unless every word that was sent was counted once."""
        expected = list(range(1, self.sent // WORDS + 1))
        assert self.counts == {f"word {word}": expected for word in range(WORDS)}

    def read_until(self, count: int, *instances: JavaProgram) -> None:
        """Read so many counts, while instances must live."""
        work_until(
            lambda: self.seen >= count,
            self.read,
            *(each.check_runs for each in instances),
            what=f"{count} counts",
            show=lambda: f"{self.seen}\n" + "\n".join(each.log_end() for each in instances),
        )


@contextmanager
def counting(cluster: Cluster) -> Generator[Counted]:
    """The topics `words` and `counted`, and clients of both."""
    with AdminClient(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in ("words", "counted")])
    with (
        Producer(cluster.bootstrap) as producer,
        Consumer(
            cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        consumer.assign([TopicPartition("counted", number) for number in range(PARTITIONS)])
        yield Counted(producer, consumer)


def instance(cluster: Cluster, folder: Path, name: str, **settings: object) -> JavaProgram:
    """An instance of the application that keeps its state in a directory of its own."""
    (folder / name).mkdir()
    every: dict[str, object] = {
        "bootstrap.servers": cluster.bootstrap,
        "application.id": "counting",
        "client.id": name,
        "state.dir": folder / name / "state",
        "processing.guarantee": "exactly_once_v2",
        "replication.factor": 3,
        "commit.interval.ms": 50,
        "consumer.auto.offset.reset": "earliest",
        "producer.transaction.timeout.ms": 5000,
        "reconnect.backoff.max.ms": 200,
        **settings,
    }
    properties = write_properties(folder / name / "settings.properties", every)
    log = folder / name / "instance.log"
    return JavaProgram(log, "Counting", properties, "words", "counted")
