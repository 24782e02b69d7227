"""What the sender does, situation by situation."""

from __future__ import annotations

from collections import deque

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import metadata as metadata_api
from minikafka.protocol.messages import produce
from minikafka.protocol.records import Compression, parse_batch_header
from minikafka_client import errors
from minikafka_client.core.producer_batch import BatchState
from minikafka_client.core.sender import Closing, Produced
from tests.client.core.sender_world import TOPIC, World, config, metadata


def ready(**settings: object) -> World:
    """A world whose sender is connected, has its producer id and one stored batch everywhere."""
    world = World(settings=config(**settings))
    for partition in range(2):
        world.send(partition, b"first")
    world.settle()
    return world


def send_batches(world: World, count: int, partition: int = 0) -> None:
    """Send that many batches of one record, each as far as it gets."""
    for number in range(count):
        world.send(partition, b"%d" % number)
        world.accumulator.close_all()
        world.expire()


def test_nothing_is_asked_for_while_nothing_is_sent() -> None:
    world = World()
    world.expire()
    wanted = [world.wants_producer_id, world.wants_connection, world.wants_metadata]
    assert not any(wanted)
    assert world.sender.deadline() is None


def test_a_batch_lingers_for_more_records() -> None:
    world = ready(linger_s=2.0)
    world.send(0, b"a")
    assert world.sender.deadline() == world.now + 2.0
    world.expire(1.9)
    world.send(0, b"b")
    assert not world.in_flight[1]
    world.expire(0.1)
    [request] = world.in_flight[1]
    assert parse_batch_header(_payload(request.request)).record_count == 2


def _payload(request: object) -> bytes:
    payload: bytes = request.topic_data[0].partition_data[0].records  # type: ignore[attr-defined]  # a ProduceRequest
    return payload


def test_a_full_batch_does_not_linger() -> None:
    world = ready(linger_s=2.0)
    for _ in range(4):
        world.send(0, bytes(80))
    world.expire()
    assert len(world.in_flight[1]) >= 1


def test_flushing_ends_all_lingering() -> None:
    world = ready(linger_s=2.0)
    world.sender.is_flushing = True
    world.send(0, b"a")
    assert world.sender.deadline() == world.now
    world.expire()
    assert len(world.in_flight[1]) == 1


def test_no_more_requests_are_under_way_than_allowed() -> None:
    world = ready(max_in_flight=3)
    send_batches(world, 8)
    assert len(world.in_flight[1]) == 3
    world.process(1)
    world.answer(1)
    assert len(world.in_flight[1]) == 3


def test_partitions_of_one_broker_travel_together() -> None:
    world = World(partition_count=4)
    for partition in range(4):
        world.send(partition, b"first")
    world.settle()
    for partition in range(4):
        world.send(partition, b"second")
    world.expire()
    for node in (1, 2):
        [request] = world.in_flight[node]
        assert len(request.request.topic_data[0].partition_data) == 2


def test_a_request_is_not_larger_than_allowed() -> None:
    world = World(partition_count=4, settings=config(max_request_size=250))
    for partition in range(4):
        world.send(partition, bytes(100))
    world.settle()
    for partition in range(4):
        world.send(partition, bytes(100))
    world.expire()
    assert [len(world.in_flight[node]) for node in (1, 2)] == [2, 2]


def test_batches_are_compressed_as_asked() -> None:
    world = ready(compression=Compression.GZIP)
    world.send(0, bytes(100))
    world.expire()
    [request] = world.in_flight[1]
    assert parse_batch_header(_payload(request.request)).compression is Compression.GZIP


def test_without_idempotence_there_is_no_producer_id() -> None:
    world = World(settings=config(is_idempotent=False))
    world.send(0, b"a")
    world.settle()
    assert not world.wants_producer_id
    assert world.logs[0].values == [b"a"]
    send_batches(world, 3)
    assert len(world.in_flight[1]) == 3
    [first, *_] = world.in_flight[1]
    assert parse_batch_header(_payload(first.request)).producer_id == -1


def test_without_acks_a_batch_is_done_when_it_is_sent() -> None:
    world = World(settings=config(is_idempotent=False, acks=0))
    world.send(0, b"a")
    world.expire()
    world.recover()
    [request] = world.in_flight[1]
    world.in_flight[1].clear()
    world.run(
        world.sender.handle(Produced(request.request_id, produce.Response(responses=[])), world.now)
    )
    [(batch, _, _)] = world.handles
    assert (batch.state, batch.error, batch.base_offset) == (BatchState.DONE, None, -1)


def test_without_acks_nothing_is_repeated() -> None:
    world = World(settings=config(is_idempotent=False, acks=0))
    world.send(0, b"a")
    world.expire()
    world.recover()
    world.lose_connection(1)
    [(batch, _, _)] = world.handles
    assert isinstance(batch.error, errors.ConnectionLostError)


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    world = ready()
    world.leaders[0], world.epochs[0] = -1, 1
    world.refresh_metadata()
    world.send(0, b"a")
    world.expire()
    assert world.wants_metadata
    world.leaders[0], world.epochs[0] = 2, 2
    world.settle()
    assert world.logs[0].values == [b"first", b"a"]


def test_a_new_leader_that_the_answer_names_is_sent_to_immediately() -> None:
    world = ready()
    world.send(0, b"a")
    world.expire()
    request_id = world.in_flight[1].popleft().request_id
    refused = produce.PartitionResponse(
        index=0,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        base_offset=-1,
        current_leader=produce.LeaderIdAndEpoch(leader_id=3, leader_epoch=9),
    )
    topic = produce.TopicResponse(name=TOPIC, partition_responses=[refused])
    response = produce.Response(
        responses=[topic], node_endpoints=[produce.NodeEndpoint(node_id=3, host="new", port=1)]
    )
    world.run(world.sender.handle(Produced(request_id, response), world.now))
    assert world.cluster.leader(TOPIC, 0) == 3
    assert world.cluster.brokers[3].host == "new"
    world.expire()
    assert world.wants_connection == [3]
    assert world.sender.is_idle
    world.in_flight[3] = deque()
    world.connect(3)
    assert len(world.in_flight[3]) == 1
    assert world.handles[-1][0].state is BatchState.SENT


def test_topics_with_ids_are_sent_by_name_and_id() -> None:
    world = ready()
    topic_id = bytes(range(16))
    fresh = metadata(world.leaders, [1, 1])
    fresh.topics[0].topic_id = topic_id
    world.cluster.update(fresh, world.now)
    world.send(0, b"a")
    world.expire()
    [request] = world.in_flight[1]
    assert request.request.topic_data[0].topic_id == topic_id
    outcome = produce.PartitionResponse(index=0, error_code=0, base_offset=7)
    answer = produce.Response(
        responses=[produce.TopicResponse(topic_id=topic_id, partition_responses=[outcome])]
    )
    world.run(world.sender.handle(Produced(request.request_id, answer), world.now))
    assert world.handles[-1][0].base_offset == 7


def test_an_answer_that_leaves_a_batch_out_is_no_answer() -> None:
    world = ready()
    world.send(0, b"a")
    world.expire()
    request_id = world.in_flight[1].popleft().request_id
    empty = produce.Response(responses=[])
    world.run(world.sender.handle(Produced(request_id, empty), world.now))
    batch = world.handles[-1][0]
    assert batch.state is BatchState.RETRY
    assert isinstance(batch.last_error, errors.UnreadableResponseError)


def test_a_throttled_producer_waits() -> None:
    world = ready()
    send_batches(world, 1)
    request_id = world.in_flight[1].popleft().request_id
    outcome = produce.PartitionResponse(index=0, error_code=0, base_offset=1)
    topic = produce.TopicResponse(name=TOPIC, partition_responses=[outcome])
    answer = produce.Response(responses=[topic], throttle_time_ms=700)
    world.run(world.sender.handle(Produced(request_id, answer), world.now))
    send_batches(world, 1)
    assert not world.in_flight[1]
    assert world.sender.deadline() == pytest.approx(world.now + 0.7)
    world.expire(0.8)
    assert len(world.in_flight[1]) == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
)
def test_what_a_broker_refuses_for_good_is_given_up(code: ErrorCode) -> None:
    world = ready()
    send_batches(world, 1)
    world.process(1, code)
    world.answer(1)
    [batch] = world.failed
    assert isinstance(batch.error, errors.BrokerError)
    assert batch.error.code is code
    assert "1 records for partition 0 of 'topic'" in str(batch.error)


def test_a_broker_that_is_too_old_is_reported_and_its_connection_kept() -> None:
    world = ready()
    send_batches(world, 1)
    request_id = world.in_flight[1].popleft().request_id
    too_old = errors.UnsupportedByBrokerError("too old")
    world.run(world.sender.handle(Produced(request_id, too_old), world.now))
    assert [batch.error for batch in world.failed] == [too_old]
    assert world.wants_connection == []


def test_a_duplicate_is_a_success() -> None:
    world = ready()
    send_batches(world, 1)
    world.process(1, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    world.answer(1)
    assert world.handles[-1][0].state is BatchState.DONE
    assert world.handles[-1][0].error is None


def test_retries_wait_longer_and_longer() -> None:
    world = ready()
    send_batches(world, 1)
    pauses: list[float] = []
    for _ in range(3):
        world.process(1, ErrorCode.NOT_ENOUGH_REPLICAS)
        world.answer(1)
        deadline = world.sender.deadline()
        assert deadline is not None
        pauses.append(deadline - world.now)
        world.expire(pauses[-1])
    assert pauses == pytest.approx([0.1, 0.2, 0.4])


def test_a_producer_id_that_is_refused_for_good_fails_everything() -> None:
    world = World()
    world.send(0, b"a")
    world.expire()
    world.refuse_producer_id(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert len(world.failed) == 1
    world.expire()
    assert not world.wants_producer_id


def test_a_producer_id_that_is_not_to_be_had_now_is_asked_for_again() -> None:
    world = World()
    world.send(0, b"a")
    world.expire()
    world.refuse_producer_id(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert world.sender.deadline() == pytest.approx(world.now + 0.1)
    world.expire(0.2)
    assert world.wants_producer_id
    world.settle()
    world.check()


def test_the_time_for_a_delivery_ends() -> None:
    world = World(delivery_timeout_s=10.0)
    world.send(0, b"a")
    world.expire()
    world.expire(10.0)
    [batch] = world.failed
    assert isinstance(batch.error, errors.DeliveryTimeoutError)
    assert "the last reason: no broker could be sent to" in str(batch.error)


def test_a_delivery_that_times_out_says_what_went_wrong_last() -> None:
    world = ready()
    send_batches(world, 1)
    world.process(1, ErrorCode.NOT_ENOUGH_REPLICAS)
    world.answer(1)
    world.expire(120.0)
    assert "the last reason: 1 records" in str(world.failed[0].error)
    assert "NOT_ENOUGH_REPLICAS" in str(world.failed[0].error)


def test_an_answer_to_what_was_given_up_changes_nothing() -> None:
    world = ready()
    send_batches(world, 2)
    world.process(1)
    world.process(1, ErrorCode.NOT_ENOUGH_REPLICAS)
    world.expire(120.0)
    assert len(world.failed) == 2
    world.answer(1)
    world.answer(1)
    assert len(world.failed) == 2
    assert world.accumulator.used_bytes == 0


def test_closing_gives_up_what_is_not_delivered() -> None:
    world = ready()
    send_batches(world, 2)
    world.send(1, b"open")
    world.run(world.sender.handle(Closing(), world.now))
    assert len(world.failed) == 3
    assert all(isinstance(batch.error, errors.ClosedError) for batch in world.failed)
    assert world.accumulator.active == {}


def test_when_the_epochs_are_used_up_a_new_producer_id_is_asked_for() -> None:
    world = ready()
    world.sender._identity.producer_epoch = 32_767
    queue = world.accumulator.queues[TOPIC, 0]
    queue.producer_epoch = 32_767
    queue.needs_new_epoch = True
    first_id = queue.producer_id
    send_batches(world, 1)
    assert world.wants_producer_id
    assert not world.in_flight[1]
    world.settle()
    assert queue.producer_id == first_id + 1
    assert world.handles[-1][0].error is None


def test_news_of_other_topics_changes_nothing() -> None:
    world = ready()
    other = metadata_api.Response(
        brokers=[], topics=[metadata_api.ResponseTopic(error_code=3, name="other", partitions=[])]
    )
    world.cluster.update(other, world.now)
    send_batches(world, 1)
    assert len(world.in_flight[1]) == 1


def test_a_broker_that_cannot_be_reached_is_tried_again() -> None:
    world = World()
    send_batches(world, 1)
    world.grant_producer_id()
    [node] = world.wants_connection
    world.refuse_connection(node)
    assert world.wants_metadata
    world.expire()
    assert world.wants_connection == [node]
    world.settle()
    assert not world.accumulator.active


@pytest.mark.parametrize(
    ("error", "is_doubtful"),
    [
        (errors.ConnectionLostError("it broke"), True),
        (errors.RequestTimeoutError("no answer"), True),
        (errors.NotConnectedError("it was closed before"), False),
    ],
)
def test_only_what_was_sent_is_in_doubt(error: errors.KafkaError, is_doubtful: bool) -> None:
    world = ready()
    world.send(0, b"a")
    world.expire()
    request_id = world.in_flight[1].popleft().request_id
    world.run(world.sender.handle(Produced(request_id, error), world.now))
    assert world.handles[-1][0].is_doubtful is is_doubtful
    world.logs[0]._epochs[world.next_producer_id] = 0  # an older log, as after an unclean election
    world.logs[0]._recent[world.next_producer_id] = [(5, 5, 5)]
    world.settle()
    failure = world.handles[-1][0].error
    assert (failure is not None) is is_doubtful
    assert not is_doubtful or "may or may not be stored" in str(failure)
