"""What tests say to a broker in its own protocol, message by message.

`Wire` blocks and `WireClient` is for trio; see `minikafka.testing.wire` for what both can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest

from minikafka.protocol import records as record_format
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import (
    create_topics,
    delete_records,
    delete_topics,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
)
from minikafka.protocol.messages import fetch as fetch_api
from minikafka.protocol.messages import produce as produce_api
from minikafka.testing import wire

EARLIEST = -2
LATEST = -1
MakeTopic = Callable[..., str]
PRODUCE_VERSION = 9
_CREATE_TOPICS_VERSION = 7
_NAME_MAX = 200
_FETCH_VERSION = 11
_FETCH_BYTES = 10_000_000
_STORED_BYTES_MAX = 50_000_000


def topic_named_after(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups that no other test uses."""
    name = f"{request.module.__name__.rsplit('.', 1)[-1]}.{request.node.name}"
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)[
        :_NAME_MAX
    ]


# --- requests and what is in their responses ---


def creatable(
    name: str, partitions: int = 1, factor: int = 1, **settings: object
) -> create_topics.CreatableTopic:
    """A topic for CreateTopics; settings are keywords with ``_`` for dots, None has no value."""
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[],
        configs=[
            create_topics.CreatableTopicConfig(
                name=key.replace("_", "."), value=None if value is None else str(value)
            )
            for key, value in settings.items()
        ],
    )


def assigned(name: str, *replicas: list[int]) -> create_topics.CreatableTopic:
    """A topic for CreateTopics with a list of brokers for each partition."""
    topic = creatable(name, -1, -1)
    topic.assignments = [
        create_topics.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
        for number, brokers in enumerate(replicas)
    ]
    return topic


def create_request(*topics: create_topics.CreatableTopic) -> create_topics.Request:
    return create_topics.Request(topics=list(topics), timeout_ms=30_000)


def one_batch(
    value: bytes | None, key: bytes | None = None, timestamp_ms: int = 1000, **producer: int
) -> bytes:
    """A batch of one record; `producer` has its producer id, epoch and sequence."""
    return bytes(record_format.encode_batch([(key, value, (), timestamp_ms)], **producer))  # type: ignore[arg-type]  # the names are right


def produce_request(
    topic: str, records: bytes, *, partition: int = 0, acks: int = 1
) -> produce_api.Request:
    data = produce_api.PartitionData(index=partition, records=records)
    return produce_api.Request(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[produce_api.TopicData(name=topic, partition_data=[data])],
    )


def fetch_request(
    topic: str, offset: int, *, partition: int = 0, **limits: int
) -> fetch_api.Request:
    """A sessionless Fetch request for one partition; `limits` are those of `fetch_of`."""
    return fetch_of(topic, {partition: offset}, **limits)


def fetch_of(
    topic: str,
    offsets: Mapping[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = _FETCH_BYTES,
    session_id: int = 0,
    session_epoch: int = -1,
) -> fetch_api.Request:
    """A Fetch request for several partitions: their offsets by number."""
    asked = [
        fetch_api.Partition(partition=number, fetch_offset=offset, partition_max_bytes=max_bytes)
        for number, offset in offsets.items()
    ]
    return fetch_api.Request(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[fetch_api.Topic(topic=topic, partitions=asked)] if asked else [],
    )


def _produced(response: produce_api.Response) -> produce_api.PartitionResponse:
    return response.responses[0].partition_responses[0]


def _fetched(response: fetch_api.Response) -> fetch_api.PartitionData:
    assert response.error_code == ErrorCode.NONE, response
    return response.responses[0].partitions[0]


def _check_created(response: create_topics.Response) -> None:
    assert response.topics[0].error_code == ErrorCode.NONE, response


def _headers(fetched: fetch_api.PartitionData) -> Iterator[tuple[int, record_format.BatchHeader]]:
    assert isinstance(fetched.records, memoryview)
    yield from record_format.iter_batches(fetched.records)


def records_of(fetched: fetch_api.PartitionData) -> list[record_format.Record]:
    """The records of a fetched partition, the CRC of each batch checked."""
    assert isinstance(fetched.records, memoryview)
    return [
        record
        for position, header in _headers(fetched)
        if header.record_count
        for record in record_format.decode_records(fetched.records, position, check_crc=True)
    ]


def values_of(fetched: fetch_api.PartitionData) -> list[bytes | None]:
    """The values of a fetched partition's records."""
    return [record.value for record in records_of(fetched)]


def next_offset_in(fetched: fetch_api.PartitionData, offset: int) -> int:
    """Where the next fetch begins. Batches without records count, too."""
    for _, header in _headers(fetched):
        offset = header.next_offset
    return offset


# --- connections ---


class Wire(wire.Wire):
    def create_topic(self, name: str, partitions: int, settings: Mapping[str, object]) -> None:
        """Create a topic; settings are keywords with ``_`` for dots."""
        request = create_request(creatable(name, partitions, 1, **settings))
        _check_created(self.ask(request, _CREATE_TOPICS_VERSION, create_topics.Response))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics, those that exist."""
        topics = [delete_topics.TopicState(name=name, topic_id=ZERO_UUID) for name in names]
        request = delete_topics.Request(topics=topics, timeout_ms=30_000)
        answer = self.ask(request, 6, delete_topics.Response)
        fine = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert {one.error_code for one in answer.responses} <= fine, answer

    def topic(self, name: str) -> metadata.ResponseTopic:
        """What Metadata says of a topic; never creates it."""
        request = metadata.Request(
            topics=[metadata.RequestTopic(name=name)], allow_auto_topic_creation=False
        )
        return self.ask(request, 10, metadata.Response).topics[0]

    def new_producer_id(self) -> int:
        """A producer id for an idempotent producer."""
        request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
        answer = self.ask(request, 3, init_producer_id.Response)
        assert answer.error_code == ErrorCode.NONE, answer
        return answer.producer_id

    def send_batch(self, topic: str, partition: int, batch: bytes, acks: int = -1) -> None:
        """Send a batch without waiting for its response."""
        request = produce_request(topic, batch, partition=partition, acks=acks)
        self.send(request, PRODUCE_VERSION)

    def receive_ack(self) -> produce_api.PartitionResponse:
        """The response to the oldest batch that was sent."""
        return _produced(self.receive(produce_api.Response, PRODUCE_VERSION)[1])

    def produce(self, topic: str, partition: int, batch: bytes) -> produce_api.PartitionResponse:
        """Send a batch with acks=all and wait for its response."""
        self.send_batch(topic, partition, batch)
        return self.receive_ack()

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_wait_ms: int = 0,
        size_bytes: int = 1 << 20,
    ) -> fetch_api.PartitionData:
        """Fetch from one partition, without a session."""
        request = fetch_request(
            topic, offset, partition=partition, max_wait_ms=max_wait_ms, max_bytes=size_bytes
        )
        return _fetched(self.ask(request, _FETCH_VERSION, fetch_api.Response))

    def stored_batches(self, topic: str, partition: int = 0) -> list[record_format.BatchHeader]:
        """The headers of all batches, as the broker stores them; a fetch ends with a segment."""
        found: list[record_format.BatchHeader] = []
        offset, high_watermark = 0, 1
        while offset < high_watermark:
            fetched = self.fetch(topic, partition, offset, size_bytes=_STORED_BYTES_MAX)
            assert fetched.error_code == ErrorCode.NONE, fetched
            found += [header for _, header in _headers(fetched)]
            high_watermark = fetched.high_watermark
            next_offset = next_offset_in(fetched, offset)
            if next_offset == offset:  # nothing is stored, or what was compacted was the last
                break
            offset = next_offset
        return found

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        """ListOffsets of one partition."""
        asked = list_offsets.Partition(partition_index=partition, timestamp=timestamp)
        request = list_offsets.Request(
            replica_id=-1, topics=[list_offsets.Topic(name=topic, partitions=[asked])]
        )
        answer = self.ask(request, 5, list_offsets.Response).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, (topic, partition, answer)
        return answer.offset

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> int:
        """Delete records below an offset; returns the low watermark."""
        wanted = delete_records.Topic(
            name=topic,
            partitions=[delete_records.Partition(partition_index=partition, offset=offset)],
        )
        request = delete_records.Request(topics=[wanted], timeout_ms=30_000)
        answer = self.ask(request, 2, delete_records.Response).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, answer
        return answer.low_watermark


class WireClient(wire.TrioWire):
    """A connection for trio, over any stream."""

    async def create_topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic; settings are keywords with ``_`` for dots."""
        request = create_request(creatable(name, partitions, 1, **settings))
        _check_created(await self.ask(request, _CREATE_TOPICS_VERSION, create_topics.Response))

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = 1, batch: bytes = b""
    ) -> produce_api.PartitionResponse:
        """Produce one batch of values (or the given batch)."""
        records = batch or bytes(
            record_format.encode_batch([(None, value, (), 1000) for value in values])
        )
        request = produce_request(topic, records, partition=partition, acks=acks)
        return _produced(await self.ask(request, PRODUCE_VERSION, produce_api.Response))

    async def fetch(
        self, topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0
    ) -> fetch_api.PartitionData:
        request = fetch_request(topic, offset, partition=partition, max_wait_ms=max_wait_ms)
        return _fetched(await self.ask(request, _FETCH_VERSION, fetch_api.Response))


async def set_for_group(client: WireClient, group_id: str, name: str, value: str) -> None:
    """Give a group a setting of its own."""
    config = incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
    group = incremental_alter_configs.Resource(
        resource_type=32, resource_name=group_id, configs=[config]
    )
    request = incremental_alter_configs.Request(resources=[group], validate_only=False)
    answer = await client.ask(request, 1, incremental_alter_configs.Response)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer
