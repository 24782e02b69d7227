"""Many clients create, delete, grow, fill and read the same topics at the same time.

What is acknowledged while a topic lives is in it; and no client sees anything but what the
others do to its topics.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from tests.faults.campaign import rounds, with_seed
from tests.kit.live import JudgedBroker

TOPICS = [f"contended-{number}" for number in range(4)]
PARTITIONS = 2
PARTITIONS_MAX = 6
STEPS = 30
LAST_RECORDS = 25
MUST_HAPPEN = ("create", "delete", "grow", "send", "create: TOPIC_ALREADY_EXISTS")
PATIENCE_S = 300.0
"""For all of that to happen once; a machine that is fast or slow may need more than ``STEPS``."""

GONE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


class Topic:
    """What is known of a topic's lives, and what was promised in the present one.

    Attributes:
        deletions: how many were begun; a new life begins when one of them has ended.
        being_deleted: how many have not ended.
        promised: value -> life (by ``deletions``) and place.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.deletions = 0
        self.being_deleted = 0
        self.promised: dict[bytes, tuple[int, mk.RecordMetadata]] = {}

    def still_promised(self) -> dict[bytes, mk.RecordMetadata]:
        """What was acknowledged since the last deletion."""
        return {
            value: place for value, (life, place) in self.promised.items() if life == self.deletions
        }


class Contest:
    """The topics, and the clients that contend for them."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.bootstrap = bootstrap
        self.seed = seed
        self.topics = [Topic(name) for name in TOPICS]
        self.sent: set[bytes] = set()
        self.happened: Counter[str] = Counter()
        self.over = trio.Event()
        self.is_read = trio.Event()

    def dice(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")

    async def expect(
        self, what: str, codes: set[ErrorCode], action: Callable[[], Awaitable[object]]
    ) -> None:
        """Do something that the others may already have done or undone."""
        try:
            await action()
        except mk.KafkaError as error:
            if error.code not in codes:
                raise AssertionError(f"{what}: {error!r}") from error
            self.happened[f"{what}: {error.code.name}"] += 1
        else:
            self.happened[what] += 1

    def missing(self) -> list[str]:
        """What has to happen in a contest, but has not happened yet."""
        return [what for what in MUST_HAPPEN if not self.happened[what]]

    async def administer(self, name: str) -> None:
        """Create, delete and grow topics at random."""
        dice = self.dice(name)
        async with mk.AdminClient(self.bootstrap) as admin:
            steps_left = rounds(STEPS)
            while steps_left > 0 or self.missing():
                steps_left -= 1
                topic = dice.choice(self.topics)
                match dice.randrange(5):
                    case 0:
                        await self.delete(admin, topic)
                    case 1:
                        await self.grow(admin, topic, dice.randint(PARTITIONS, PARTITIONS_MAX))
                    case _:
                        await self.create(admin, topic)

    async def create(self, admin: mk.AdminClient, topic: Topic) -> None:
        new = [mk.NewTopic(topic.name, PARTITIONS)]
        codes = {ErrorCode.TOPIC_ALREADY_EXISTS}
        await self.expect("create", codes, lambda: admin.create_topics(new))

    async def delete(self, admin: mk.AdminClient, topic: Topic) -> None:
        topic.deletions += 1
        topic.being_deleted += 1
        await self.expect("delete", GONE, lambda: admin.delete_topics([topic.name]))
        topic.being_deleted -= 1

    async def grow(self, admin: mk.AdminClient, topic: Topic, total: int) -> None:
        codes = GONE | {ErrorCode.INVALID_PARTITIONS}
        await self.expect("grow", codes, lambda: admin.create_partitions({topic.name: total}))

    async def produce(self, name: str, is_idempotent: bool) -> None:
        """Send to all of them until the contest is over, and a little longer."""
        dice = self.dice(name)
        patience = {"delivery_timeout_ms": 2_000, "max_block_ms": 1_000}
        number = 0
        async with mk.Producer(
            self.bootstrap,
            enable_idempotence=is_idempotent,
            request_timeout_ms=1_500,
            linger_ms=1,
            **patience,  # type: ignore[arg-type]  # all by name
        ) as producer:
            while not self.over.is_set():
                number += 1
                value = f"{name}:{number}".encode()
                await self.send(producer, dice.choice(self.topics), value)
            for topic in self.topics:
                for last in range(LAST_RECORDS):
                    await self.send(producer, topic, f"{name}:last:{last}".encode())
                    assert f"{name}:last:{last}".encode() in topic.promised

    async def send(self, producer: mk.Producer, topic: Topic, value: bytes) -> None:
        """Send one record, and take note of what its acknowledgement promises."""
        life, is_alive = topic.deletions, not topic.being_deleted
        self.sent.add(value)
        try:
            place = await (await producer.send(topic.name, value))
        except (mk.DeliveryTimeoutError, mk.RequestTimeoutError) as error:
            self.happened[type(error).__name__] += 1
        except mk.KafkaError as error:
            if error.code not in GONE:
                raise AssertionError(f"send to {topic.name}: {error!r}") from error
            self.happened[f"send: {error.code.name}"] += 1
        else:
            self.happened["send"] += 1
            if is_alive:
                topic.promised[value] = life, place

    async def consume(self, name: str) -> None:
        """Read all of them in one group until the contest is over."""
        async with mk.Consumer(
            self.bootstrap,
            group_id="contenders",
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=200,
        ) as consumer:
            await consumer.subscribe(TOPICS)
            while not self.over.is_set():
                for record in await consumer.poll(timeout_ms=100):
                    assert record.value in self.sent, f"{name} read {record}"
                    self.is_read.set()

    async def check(self) -> None:
        """What is promised is there, once, where it was acknowledged."""
        async with mk.Consumer(self.bootstrap, auto_offset_reset="earliest") as consumer:
            for topic in self.topics:
                found: dict[bytes, mk.RecordMetadata] = {}
                where = [
                    mk.TopicPartition(topic.name, index)
                    for index in await consumer.partitions_for(topic.name)
                ]
                ends = await consumer.end_offsets(where)
                await consumer.assign(where)
                count = 0
                while count < sum(ends.values()):
                    for record in await consumer.poll():
                        count += 1
                        assert record.value in self.sent
                        found[record.value] = mk.RecordMetadata(*record[:4])
                promised = topic.still_promised()
                assert len(promised) >= LAST_RECORDS
                assert {value: found.get(value) for value in promised} == promised, topic.name


@with_seed
@pytest.mark.slow
@pytest.mark.timeout(36_000)
async def test_acknowledged_records_are_in_their_incarnation_of_the_topic(
    tmp_path: Path, seed: int
) -> None:
    settings = {"auto.create.topics.enable": "false", "log.segment.delete.delay.ms": "0"}
    with JudgedBroker(tmp_path, settings) as broker:
        contest = Contest(broker.bootstrap, seed)
        async with trio.open_nursery() as clients:
            for number in range(4):
                clients.start_soon(contest.produce, f"producer-{number}", number % 2 == 0)
            for number in range(2):
                clients.start_soon(contest.consume, f"consumer-{number}")
            with trio.move_on_after(PATIENCE_S * rounds(1)) as patience:
                async with trio.open_nursery() as administrators:
                    for number in range(4):
                        administrators.start_soon(contest.administer, f"administrator-{number}")
                async with mk.AdminClient(broker.bootstrap) as admin:
                    for topic in contest.topics:
                        await contest.create(admin, topic)
                await contest.is_read.wait()
            assert not patience.cancelled_caught, contest.missing() or "nothing is read"
            contest.over.set()
        await contest.check()
        broker.check_log()
