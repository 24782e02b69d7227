"""Clients that read, delete, create and commit while others write."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_records, delete_topics, offset_commit, offset_fetch
from tests.faults.campaign import Campaign, Worker
from tests.faults.sightings import Place
from tests.faults.writers import TIMESTAMP_MS, read_all
from tests.kit.wire import EARLIEST, LATEST, Wire, one_batch, records_of

_POLL_MS = 20
_MOVING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class Reader(Worker):
    """Reads here and there, also at the end with a long poll; remembers what it saw."""

    def __init__(self, campaign: Campaign, number: int, places: list[Place]) -> None:
        super().__init__(campaign, f"reader {number}")
        self._places = places
        self._ends: dict[Place, int] = {}

    def step(self, link: Wire) -> None:
        place = self.dice.choice(self._places)
        start, end = link.offset_at(*place, EARLIEST), link.offset_at(*place, LATEST)
        assert end >= self._ends.get(place, 0), f"{place}: the end went back to {end}"
        self._ends[place] = end
        offset = self.dice.randint(start, end)
        size = self.dice.choice((1, 5_000, 50_000))
        answer = link.fetch(*place, offset, max_wait_ms=_POLL_MS, size_bytes=size)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return  # deleted in between
        assert answer.error_code == ErrorCode.NONE, (place, offset, answer)
        found = [record for record in records_of(answer) if record.offset >= offset]
        self.campaign.sightings.see(place, found)
        assert not found or found[-1].offset < answer.high_watermark, (place, answer)


class Deleter(Worker):
    """DeleteRecords: the log start offset only ever rises, also over a crash."""

    def __init__(self, campaign: Campaign, topic: str, partition: int) -> None:
        super().__init__(campaign, f"deleter of {topic}-{partition}")
        self.topic = topic
        self.partition = partition
        self._low = 0

    def step(self, link: Wire) -> None:
        """Delete up to somewhere between the start and the end."""
        start = link.offset_at(self.topic, self.partition, EARLIEST)
        end = link.offset_at(self.topic, self.partition, LATEST)
        assert start >= self._low, f"{self.topic}: starts at {start}, but {self._low} was promised"
        offset = self.dice.randint(start, start + (end - start) // 2)
        asked = delete_records.Partition(partition_index=self.partition, offset=offset)
        request = delete_records.Request(
            topics=[delete_records.Topic(name=self.topic, partitions=[asked])], timeout_ms=10_000
        )
        answer = link.ask(request, 2, delete_records.Response).topics[0].partitions[0]
        if answer.error_code == ErrorCode.NONE:
            assert answer.low_watermark >= offset, answer
            self._low = answer.low_watermark
        else:
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, answer


class Churner(Worker):
    """Deletes and recreates a topic repeatedly; old records never show up in a new one."""

    def __init__(self, campaign: Campaign, topic: str) -> None:
        super().__init__(campaign, f"churner of {topic}")
        self.topic = topic
        self._values: dict[bytes, list[bytes]] = {}  # by topic id, what was acknowledged
        self._number = 0

    def step(self, link: Wire) -> None:
        """Create it if it is not there, write, read everything, and perhaps delete it."""
        found = link.topic(self.topic)
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._create(link)
            found = link.topic(self.topic)
        assert found.error_code == ErrorCode.NONE, found
        values = self._values.setdefault(found.topic_id, [])
        for _ in range(self.dice.randint(0, 5)):
            self._number += 1
            value = f"{found.topic_id.hex()}:{self._number}:{'c' * 300}".encode()
            batch = one_batch(value, b"k", TIMESTAMP_MS)
            answer = link.produce(self.topic, 0, batch)
            assert answer.error_code == ErrorCode.NONE, answer
            values.append(value)
        self.check(link)
        if self.dice.random() < 0.5:
            self.campaign.sightings.forget(self.topic)
            request = delete_topics.Request(topic_names=[self.topic], timeout_ms=10_000)
            deleted = link.ask(request, 5, delete_topics.Response).responses[0]
            assert deleted.error_code == ErrorCode.NONE, deleted

    def _create(self, link: Wire) -> None:
        link.create_topic(self.topic, 2, {})

    def check(self, link: Wire) -> None:
        """All records belong to this incarnation of the topic; acknowledged ones are kept."""
        found = link.topic(self.topic)
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        values = [record.value for record in read_all(self.campaign, link, self.topic, 0)]
        tag = found.topic_id.hex().encode()
        strange = [value for value in values if not value or not value.startswith(tag)]
        assert not strange, f"records of another topic of that name: {strange}"
        acked = self._values.get(found.topic_id, [])
        kept = [value for value in values if value in set(acked)]
        assert kept == acked, f"{self.topic}: {len(acked)} acknowledged, {len(kept)} are there"


class Committer(Worker):
    """Commits rising offsets; what it fetches is never below what was acknowledged."""

    def __init__(self, campaign: Campaign, group_id: str, topic: str) -> None:
        super().__init__(campaign, f"committer of {group_id}")
        self.group_id = group_id
        self.topic = topic
        self._sent = 0
        self._acked = -1

    def begin(self, link: Wire) -> None:
        """See which offset the broker has."""
        self.check(link)

    def step(self, link: Wire) -> None:
        self._sent += 1
        wanted = offset_commit.RequestPartition(
            partition_index=0, committed_offset=self._sent, committed_metadata=None
        )
        request = offset_commit.Request(
            group_id=self.group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[offset_commit.RequestTopic(name=self.topic, partitions=[wanted])],
        )
        answer = link.ask(request, 6, offset_commit.Response).topics[0].partitions[0]
        if answer.error_code in _MOVING:
            return
        assert answer.error_code == ErrorCode.NONE, answer
        self._acked = self._sent
        if self.dice.random() < 0.2:
            self.check(link)

    def check(self, link: Wire) -> None:
        """The committed offset is the last acknowledged one, or one that got no answer."""
        request = offset_fetch.Request(
            group_id=self.group_id,
            topics=[offset_fetch.RequestTopic(name=self.topic, partition_indexes=[0])],
        )
        answer = link.ask(request, 5, offset_fetch.Response)
        if answer.error_code in _MOVING:
            return
        assert answer.error_code == ErrorCode.NONE, answer
        committed = answer.topics[0].partitions[0].committed_offset
        assert self._acked <= committed <= max(self._sent, -1), (
            f"{self.group_id}: committed {committed}, acknowledged {self._acked}, sent {self._sent}"
        )
