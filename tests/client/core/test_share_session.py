"""Share sessions, request by request: what is fetched, held, acknowledged, and lost."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import metadata as metadata_api
from minikafka.protocol.messages import share_acknowledge, share_fetch
from minikafka.protocol.records.builder import encode_batch
from minikafka_client.core import share_session as machine
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.share_session import AcknowledgeType
from minikafka_client.errors import ConnectionLostError, CorruptRecordsError, KafkaError
from minikafka_client.types import ShareAcquireMode, TopicPartition

TOPIC_ID = b"t" * 16
HERE = TopicPartition("t", 0)
LOCK_MS = 30_000


class World:
    """A fetcher of two partitions, led by node 1, and what it did."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cluster = Cluster([("h", 9092)])
        mode = ShareAcquireMode.BATCH_OPTIMIZED
        config = machine.ShareConfig("g", "m", 500, 1, 500, 1_000_000, True, mode)
        backoff = Backoff(100, 1_000, lambda: 0.5)
        self.fetcher = machine.ShareFetcher(config, self.cluster, backoff)
        self.sent: list[machine.SendShare] = []
        self.settled: list[machine.Settled] = []
        self.connecting: list[int] = []
        self.wants_metadata = False
        self._learn()
        self.fetcher.assigned = frozenset({HERE, TopicPartition("t", 1)})

    def _learn(self) -> None:
        brokers = [metadata_api.Broker(node_id=node, host="h", port=9000) for node in (1, 2)]
        partitions = [
            metadata_api.Partition(error_code=0, partition_index=index, leader_id=1, leader_epoch=0)
            for index in range(2)
        ]
        topic = metadata_api.ResponseTopic(
            name="t", topic_id=TOPIC_ID, error_code=0, partitions=partitions
        )
        self.cluster.update(metadata_api.Response(brokers=brokers, topics=[topic]), self.now)

    def run(self, effects: list[machine.Effect]) -> None:
        for effect in effects:
            match effect:
                case machine.SendShare():
                    self.sent.append(effect)
                case machine.Settled():
                    self.settled.append(effect)
                case machine.Connect(node):
                    self.connecting.append(node)
                case machine.RefreshMetadata():
                    self.wants_metadata = True

    def feed(self, event: machine.Event) -> None:
        self.run(self.fetcher.handle(event, self.now))

    def want(self) -> None:
        """The application waits for records."""
        self.fetcher.wants_records = True
        self.feed(machine.Changed())
        while self.connecting:
            self.feed(machine.NodeConnected(self.connecting.pop()))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.run(self.fetcher.expire(self.now))

    @property
    def fetch(self) -> share_fetch.Request:
        """The last request, which is a fetch."""
        request = self.sent[-1].request
        assert isinstance(request, share_fetch.Request)
        return request

    @property
    def acknowledgement(self) -> share_acknowledge.Request:
        """The last request, which only acknowledges."""
        request = self.sent[-1].request
        assert isinstance(request, share_acknowledge.Request)
        return request

    def answer(
        self, response: share_fetch.Response | share_acknowledge.Response | KafkaError
    ) -> None:
        last = self.sent[-1]
        self.feed(machine.Answered(last.node, last.request_id, response))

    def give(self, offsets: range, *values: bytes, first: int = 0, damaged: bool = False) -> None:
        """Answer a fetch with these values from offset ``first`` on; ``offsets`` are acquired."""
        batch = encode_batch([(None, value, (), 1) for value in values], base_offset=first)
        if damaged:
            batch[-1] ^= 1
        acquired = share_fetch.AcquiredRecords(
            first_offset=offsets[0], last_offset=offsets[-1], delivery_count=1
        )
        self.fetcher.wants_records = False
        self.answer(fetched(records=memoryview(bytes(batch)), acquired_records=[acquired]))

    def take(self, count: int) -> list[machine.Acquired]:
        taken = [self.fetcher.take(self.now) for _ in range(count)]
        return [each for each in taken if each is not None]

    def decide(self, acquired: machine.Acquired, decision: AcknowledgeType) -> None:
        self.run(self.fetcher.decide(acquired.key, decision, self.now))
        self.feed(machine.Changed())


def fetched(**data: object) -> share_fetch.Response:
    partition = share_fetch.PartitionData(partition_index=0, **data)  # type: ignore[arg-type]  # by name
    return share_fetch.Response(
        acquisition_lock_timeout_ms=LOCK_MS,
        responses=[share_fetch.TopicResponse(topic_id=TOPIC_ID, partitions=[partition])],
    )


def holding(*values: bytes) -> tuple[World, list[machine.Acquired]]:
    """A world in which the application holds these records."""
    world = World()
    world.want()
    world.give(range(len(values)), *values)
    return world, world.take(len(values))


def batches(request: share_fetch.Request | share_acknowledge.Request) -> list[tuple[int, ...]]:
    """The acknowledgements in a request: partition, first and last offset, types."""
    return [
        (each.partition_index, batch.first_offset, batch.last_offset, *batch.acknowledge_types)
        for topic in request.topics
        for each in topic.partitions
        for batch in each.acknowledgement_batches
    ]


def test_the_first_fetch_names_everything_and_later_ones_what_changed() -> None:
    world = World()
    world.want()
    assert (world.fetch.share_session_epoch, world.fetch.max_records) == (0, 500)
    assert [each.partition_index for each in world.fetch.topics[0].partitions] == [0, 1]
    world.answer(share_fetch.Response(responses=[]))
    assert (world.fetch.share_session_epoch, world.fetch.topics) == (1, [])
    world.fetcher.assigned = frozenset({HERE})
    world.answer(share_fetch.Response(responses=[]))
    assert world.fetch.share_session_epoch == 2
    assert [each.partitions for each in world.fetch.forgotten_topics_data] == [[1]]


def test_nothing_is_fetched_while_there_are_records() -> None:
    world = World()
    world.want()
    world.give(range(2), b"a", b"b")
    world.want()
    assert len(world.sent) == 1
    assert [each.record.value for each in world.take(2)] == [b"a", b"b"]
    world.want()
    assert len(world.sent) == 2


def test_acknowledgements_travel_with_the_next_fetch_in_runs() -> None:
    world, records = holding(b"a", b"b", b"c", b"d")
    for each, decision in zip(records, (1, 1, 2, 3), strict=True):
        world.decide(each, AcknowledgeType(decision))
    assert len(world.sent) == 1
    assert {offset for _, offset in world.fetcher.undecided()} == {0, 1, 2, 3}
    world.want()
    assert batches(world.fetch) == [(0, 0, 1, 1), (0, 2, 2, 2), (0, 3, 3, 3)]
    world.answer(fetched())
    assert world.settled == [machine.Settled(HERE, (0, 1, 2, 3), None)]
    assert world.fetcher.undecided() == set()


def test_acknowledgements_travel_alone_when_nobody_fetches() -> None:
    world, [record] = holding(b"a")
    world.decide(record, AcknowledgeType.ACCEPT)
    deadline = world.fetcher.deadline()
    assert deadline is not None
    world.wait(deadline - world.now)
    assert world.acknowledgement.share_session_epoch == 1
    assert batches(world.acknowledgement) == [(0, 0, 0, 1)]
    world.answer(share_acknowledge.Response(responses=[]))
    world.want()
    assert world.fetch.share_session_epoch == 2
    assert world.settled == [machine.Settled(HERE, (0,), None)]


def test_an_acknowledgement_that_is_refused_has_its_error() -> None:
    world, [record] = holding(b"a")
    world.decide(record, AcknowledgeType.ACCEPT)
    world.want()
    world.answer(fetched(acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE))
    [settled] = world.settled
    assert settled.error is not None
    assert settled.error.code is ErrorCode.INVALID_RECORD_STATE


def test_renewing_goes_at_once_and_the_record_is_still_held() -> None:
    world, [record] = holding(b"a")
    world.decide(record, AcknowledgeType.RENEW)
    assert world.acknowledgement.is_renew_ack
    assert world.sent[-1].version_min == 2
    world.answer(share_acknowledge.Response(responses=[]))
    world.decide(record, AcknowledgeType.ACCEPT)
    world.want()
    assert batches(world.fetch) == [(0, 0, 0, 1)]


def test_offsets_without_records_are_acknowledged_as_gaps_and_not_told() -> None:
    world = World()
    world.want()
    world.give(range(5), b"a", b"b", b"c", first=1)
    assert [each.record.offset for each in world.take(5)] == [1, 2, 3]
    world.want()
    assert batches(world.fetch) == [(0, 0, 0, 0), (0, 4, 4, 0)]
    world.answer(fetched())
    assert world.settled == []


def test_records_that_were_not_acquired_are_not_delivered() -> None:
    world = World()
    world.want()
    world.give(range(1, 2), b"a", b"b", b"c")
    assert [each.record.value for each in world.take(3)] == [b"b"]


def test_a_damaged_batch_is_rejected_and_told() -> None:
    world = World()
    world.want()
    world.give(range(2), b"a", b"b", damaged=True)
    assert isinstance(world.fetcher.error, CorruptRecordsError)
    world.fetcher.error = None
    world.want()
    assert batches(world.fetch) == [(0, 0, 1, 3)]


def test_a_record_whose_lock_has_ended_is_not_delivered() -> None:
    world = World()
    world.want()
    world.give(range(1), b"a")
    world.wait(LOCK_MS / 1000)
    assert world.take(1) == []


@pytest.mark.parametrize(
    "code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH]
)
def test_a_lost_session_fails_what_it_held_and_is_opened_again(code: ErrorCode) -> None:
    world, [first, second] = holding(b"a", b"b")
    world.decide(first, AcknowledgeType.ACCEPT)
    world.want()
    world.answer(share_fetch.Response(error_code=code, responses=[]))
    world.wait(2.0)
    assert world.fetch.share_session_epoch == 0
    assert batches(world.fetch) == []
    world.decide(second, AcknowledgeType.ACCEPT)  # the broker has released it
    errors = [settled.error for settled in world.settled]
    assert [error and error.code for error in errors] == [code, ErrorCode.SHARE_SESSION_NOT_FOUND]


def test_a_lost_connection_is_a_lost_session() -> None:
    world, [record] = holding(b"a")
    world.decide(record, AcknowledgeType.ACCEPT)
    world.want()
    world.answer(ConnectionLostError("lost"))
    assert [type(settled.error) for settled in world.settled] == [ConnectionLostError]
    assert world.wants_metadata
    world.wait(2.0)
    assert world.connecting == [1]
    world.feed(machine.NodeFailed(1))
    world.wait(2.0)
    assert world.connecting == [1, 1]
    world.feed(machine.NodeConnected(1))
    assert world.fetch.share_session_epoch == 0


def test_a_partition_follows_its_leader() -> None:
    world = World()
    world.want()
    leader = share_fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    world.answer(fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader))
    assert not world.wants_metadata
    world.want()
    assert {each.node for each in world.sent} == {1, 2}
    [moved] = [each.request for each in world.sent if each.node == 2]
    assert isinstance(moved, share_fetch.Request)
    assert moved.share_session_epoch == 0
    assert [each.partition_index for each in moved.topics[0].partitions] == [0]


def test_a_partition_error_that_passes_asks_for_metadata_and_waits() -> None:
    world = World()
    world.want()
    world.answer(fetched(error_code=ErrorCode.LEADER_NOT_AVAILABLE))
    assert (len(world.sent), world.wants_metadata) == (1, True)
    world.wait(2.0)
    assert len(world.sent) == 2


def test_a_permanent_error_is_for_the_application() -> None:
    world = World()
    world.want()
    world.answer(fetched(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert world.fetcher.error is not None
    assert world.fetcher.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_closing_sends_what_is_decided_and_closes_the_session() -> None:
    world, [first, _second] = holding(b"a", b"b")
    world.decide(first, AcknowledgeType.ACCEPT)
    world.fetcher.close()
    closed = [world.fetcher.is_closed]
    world.feed(machine.Changed())
    assert world.acknowledgement.share_session_epoch == -1
    assert batches(world.acknowledgement) == [(0, 0, 0, 1)]
    world.answer(share_acknowledge.Response(responses=[]))
    assert [*closed, world.fetcher.is_closed] == [False, True]
    assert world.settled == [machine.Settled(HERE, (0,), None)]


def test_what_the_application_has_not_seen_is_given_back() -> None:
    world = World()
    world.want()
    world.give(range(2), b"a", b"b")
    world.run(world.fetcher.give_back(world.now))
    world.fetcher.flush(world.now)
    world.feed(machine.Changed())
    assert batches(world.acknowledgement) == [(0, 0, 1, 2)]
