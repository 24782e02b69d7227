"""Apache Kafka's own tickets about idempotent producers, each as a scenario."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from tests.client.core.sender_world import TOPIC, World, config


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_kafka_12152_a_new_epoch_in_one_partition_leaves_the_idle_ones_in_order(
    code: ErrorCode,
) -> None:
    """There a partition with nothing under way went on with its old sequences in the new epoch."""
    world = World(settings=config())
    for partition in range(2):
        world.send(partition, b"first")
    world.settle()
    world.send(0, b"lost by the broker")
    world.accumulator.close_all()
    world.expire()
    world.process(world.leaders[0], code)
    world.answer(world.leaders[0])
    world.settle()
    for round_number in range(3):
        for partition in range(2):
            world.send(partition, b"after it %d" % round_number)
        world.settle()
    queues = [world.accumulator.queues[TOPIC, partition] for partition in range(2)]
    assert [queue.producer_epoch for queue in queues] == [1, 1]
    assert not world.failed
    assert world.logs[1].values == [b"first", b"after it 0", b"after it 1", b"after it 2"]
    world.check()
