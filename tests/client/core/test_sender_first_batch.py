"""A broker takes any sequence from a producer it does not know: so the first batch goes alone."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.identity import EPOCH_MAX
from minikafka_client.core.producer_batch import BatchState
from minikafka_client.core.sender import (
    NodeConnected,
    ProducerIdGranted,
    RequestProducerId,
    SendProduce,
)
from tests.client.core.sender_world import TOPIC, World, metadata


def value(number: int) -> bytes:
    return b"%0100d" % number  # two of them fill a batch of this world


def world_with(count: int) -> World:
    world = World(partition_count=1)
    for number in range(count):
        assert world.send(0, value(number))
    world.expire(1.0)
    world.recover()
    world.expire(1.0)
    world.recover()
    world.expire(0.0)
    return world


def under_way(world: World) -> int:
    return sum(len(requests) for requests in world.in_flight.values())


def test_nothing_follows_the_first_batch_until_a_broker_has_stored_it() -> None:
    world = world_with(10)
    assert under_way(world) == 1
    node = world.leaders[0]
    world.process(node)
    world.answer(node)
    world.expire(0.0)
    assert under_way(world) > 1


def test_an_error_that_only_the_first_batch_meets_does_not_reorder() -> None:
    world = world_with(10)
    node = world.leaders[0]
    world.process(node, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.answer(node)
    world.settle()
    assert world.logs[0].values == [value(number) for number in range(10)]


def test_after_a_first_batch_that_was_given_up_a_new_epoch_begins() -> None:
    world = world_with(10)
    node = world.leaders[0]
    world.lose_connection(node)
    world.expire(world.delivery_timeout_s + 1)
    for number in range(10, 14):
        world.send(0, value(number))
    world.settle()
    world.process_zombie(node)
    assert world.accumulator.queues["topic", 0].producer_epoch == 1
    world.check()


def test_when_the_last_epoch_is_used_up_nothing_goes_without_a_producer_id() -> None:
    world = World(partition_count=3)
    sender = world.sender
    sender.handle(ProducerIdGranted(7, EPOCH_MAX), world.now)
    for node in (1, 2):
        sender.handle(NodeConnected(node), world.now)
    world.appender.append(TOPIC, b"v", None, 0, 1, ())
    sender.expire(world.now + 1)
    world.cluster.update(metadata([1, 2, 1]), world.now)
    queue = world.accumulator.queues[TOPIC, 0]
    queue.needs_new_epoch = True
    queue.unacknowledged[0].state = BatchState.RETRY
    world.appender.append(TOPIC, b"v", None, 1, 1, ())
    effects = sender.expire(world.now + 2)
    assert not [one for one in effects if isinstance(one, SendProduce)]
    assert [one for one in effects if isinstance(one, RequestProducerId)]
