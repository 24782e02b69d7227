"""What is fetched from which broker, and what the answers do to the partitions."""

from __future__ import annotations

import random

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch
from minikafka_client import errors
from minikafka_client.core.fetcher import Changed, Fetched, NodeFailed
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.types import EARLIEST, LATEST, AutoOffsetReset, IsolationLevel, TopicPartition
from tests.client.core.fetcher_world import Log, World, config
from tests.client.core.sender_world import TOPIC, metadata


def connected(*partitions: int, **settings: object) -> World:
    world = World(settings=config(**settings))
    for partition in partitions:
        world.assign(partition)
    world.recover()
    return world


def phase_of(reader: PartitionReader) -> Phase:
    return reader.phase


def asked(world: World, node: int) -> list[tuple[int, int]]:
    """(partition, offset) of the fetch that a broker has not answered."""
    return [
        (partition.partition, partition.fetch_offset)
        for waiting in world.in_flight[node]
        for _, partition in waiting.partitions
    ]


def test_each_broker_is_asked_once_for_all_its_partitions() -> None:
    world = connected(0, 1, 2)
    assert sorted(asked(world, 1)) == [(0, 0), (2, 0)]
    assert asked(world, 2) == [(1, 0)]


def test_nothing_is_asked_of_a_broker_that_is_not_connected() -> None:
    world = World()
    world.assign(0)
    assert world.wants_connection == [1]
    world.expire()
    assert world.wants_connection == [1]
    assert asked(world, 1) == []


def test_a_broker_that_cannot_be_reached_is_tried_again() -> None:
    world = World()
    world.assign(0)
    world.fail(1)
    assert world.wants_connection == [1]
    assert world.wants_metadata


def test_records_are_fetched_ahead_of_the_application() -> None:
    world = connected(0)
    world.answer(1)
    reader = world.reader(0)
    assert (reader.position, reader.fetch_offset > 0) == (0, True)
    assert asked(world, 1) == [(0, reader.fetch_offset)]


def test_no_more_is_fetched_than_fits() -> None:
    world = connected(0)
    for _ in range(10):
        world.answer(1)
    assert asked(world, 1) == []
    assert 600 < world.fetcher.buffered_bytes <= world.fetcher.prefetch_size_bytes_max == 1_000
    buffered = world.fetcher.buffered_bytes
    assert world.take()
    assert world.fetcher.buffered_bytes < buffered
    assert len(asked(world, 1)) == 1


def test_an_idle_partition_does_not_make_a_busy_one_wait() -> None:
    world = connected(0, 2)
    world.logs[2] = Log()
    world.answer(1)
    assert sorted(partition for partition, _ in asked(world, 1)) == [0, 2]


def test_no_broker_takes_the_memory_of_all() -> None:
    world = connected(0, 1, 2)
    [first] = world.in_flight[1]
    [second] = world.in_flight[2]
    assert (first.request.max_bytes, second.request.max_bytes) == (500, 400)


def test_who_has_least_is_asked_for_first() -> None:
    world = World(settings=config(prefetch_size_bytes_max=10_000))
    world.assign(0)
    world.recover()
    world.answer(1)
    world.answer(1)
    world.assign(2)
    world.answer(1)
    assert [partition for partition, _ in asked(world, 1)] == [2, 0]


def test_a_paused_partition_is_neither_fetched_nor_returned() -> None:
    world = connected(0)
    world.answer(1)
    reader = world.reader(0)
    reader.is_paused = True
    world.answer(1)
    assert asked(world, 1) == []
    assert world.take() == []
    reader.is_paused = False
    world.fetcher.resumed(reader)
    world.feed(Changed())
    assert world.take()[0].offset == 0


def test_a_seek_drops_what_is_here_and_what_is_on_its_way() -> None:
    world = connected(0)
    world.answer(1)
    world.reader(0).seek(30)
    world.feed(Changed())
    assert world.take() == []
    world.answer(1)  # the answer to what was asked before the seek
    assert asked(world, 1) == [(0, 30)]
    world.answer(1)
    assert world.take()[0].offset == 30


def test_a_partition_that_was_taken_away_is_forgotten() -> None:
    world = connected(0)
    world.answer(1)
    del world.fetcher.readers[TopicPartition(TOPIC, 0)]
    world.answer(1)
    assert world.take() == []
    assert asked(world, 1) == []


def test_an_offset_in_the_middle_of_a_batch_begins_there() -> None:
    world = connected()
    world.assign(0, 4)
    world.recover()
    world.answer(1)
    assert [record.offset for record in world.take()][:3] == [4, 5, 6]


def test_a_new_leader_is_found_and_asked() -> None:
    world = connected(0)
    world.leaders[0], world.epochs[0] = 2, 1
    world.answer(1)
    assert world.wants_metadata
    world.recover()
    world.expire(0.2)
    world.recover()
    assert asked(world, 2) == [(0, 0)]


def test_a_leader_that_the_answer_names_is_asked_immediately() -> None:
    world = connected(0, 1)
    world.leaders[0], world.epochs[0] = 2, 1
    world.answer(1, new_leader=fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=1))
    assert world.cluster.leader(TOPIC, 0) == 2
    assert world.cluster.brokers[2].host == "new"


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    world = World()
    world.leaders[0], world.epochs[0] = -1, 1
    world.wants_metadata = True
    world.recover()
    world.assign(0)
    assert world.wants_metadata
    assert world.wants_connection == []


@pytest.mark.parametrize(
    "code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_what_may_pass_is_asked_again_after_a_pause(code: ErrorCode) -> None:
    world = connected(0)
    world.answer(1, [code])
    assert asked(world, 1) == []
    assert world.fetcher.deadline() == pytest.approx(world.now + 0.1)
    world.expire(0.11)
    assert asked(world, 1) == [(0, 0)]
    world.answer(1, [code])
    assert world.fetcher.deadline() == pytest.approx(world.now + 0.2)


def test_what_does_not_pass_fails_the_partition() -> None:
    world = connected(0, 2)
    world.answer(1, [ErrorCode.TOPIC_AUTHORIZATION_FAILED])
    failed = [r for r in world.fetcher.readers.values() if r.phase is Phase.FAILED]
    assert len(failed) == 1
    assert isinstance(failed[0].error, errors.BrokerError)
    assert len(asked(world, 1)) == 1


def test_an_error_of_the_whole_answer_is_one_of_every_partition() -> None:
    world = connected(0, 2)
    world.answer(1, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert asked(world, 1) == []
    world.expire(0.2)
    assert len(asked(world, 1)) == 2


def test_a_lost_connection_is_opened_again() -> None:
    world = connected(0)
    world.fail(1)
    world.expire(0.2)
    assert world.wants_connection == [1]
    world.recover()
    assert asked(world, 1) == [(0, 0)]


def test_a_broker_that_is_too_old_fails_its_partitions_but_not_the_connection() -> None:
    world = connected(0)
    world.fail(1, errors.UnsupportedByBrokerError("too old"))
    assert phase_of(world.reader(0)) is Phase.FAILED
    assert world.wants_connection == []


def test_a_throttled_client_waits() -> None:
    world = connected(0)
    world.answer(1, throttle_time_ms=1_500)
    assert asked(world, 1) == []
    assert world.fetcher.deadline() == pytest.approx(world.now + 1.5)
    world.expire(1.6)
    assert len(asked(world, 1)) == 1


@pytest.mark.parametrize(
    ("reset", "spec"), [(AutoOffsetReset.EARLIEST, EARLIEST), (AutoOffsetReset.LATEST, LATEST)]
)
def test_an_offset_that_does_not_exist_is_reset(reset: AutoOffsetReset, spec: int) -> None:
    world = connected(auto_offset_reset=reset)
    reader = world.assign(0, 1_000)
    world.recover()
    world.answer(1)
    assert (reader.phase, reader.reset_to) == (Phase.RESETTING, spec)


def test_an_offset_that_does_not_exist_is_an_error_without_a_reset() -> None:
    world = connected(auto_offset_reset=AutoOffsetReset.NONE)
    reader = world.assign(0, 1_000)
    world.recover()
    world.answer(1)
    assert isinstance(reader.error, errors.NoOffsetError)
    assert "has no offset 1000" in str(reader.error)


def test_what_is_here_is_returned_before_a_reset() -> None:
    world = connected(0)
    world.answer(1)
    reader = world.reader(0)
    world.logs[0].start_offset = 50  # retention overtakes us
    world.answer(1)
    assert phase_of(reader) is Phase.READY
    assert asked(world, 1) == []
    assert world.fetcher.deadline() is None
    assert world.take()
    assert len(asked(world, 1)) == 1
    world.answer(1)
    assert phase_of(reader) is Phase.RESETTING


def test_garbage_instead_of_records_fails_the_partition() -> None:
    world = connected(0)
    world.logs[0].batches[0] = (0, bytes(100))
    world.answer(1)
    assert isinstance(world.reader(0).error, errors.CorruptRecordsError)


def test_not_one_whole_batch_is_no_progress() -> None:
    world = connected(0)
    first, batch = world.logs[0].batches[0]
    world.logs[0].batches[0] = (first, batch[:-1])
    world.logs[0].batches[1:] = []
    world.answer(1)
    assert world.take() == []
    assert asked(world, 1) == [(0, 0)]


def test_an_answer_may_leave_partitions_out() -> None:
    world = connected(0)
    request_id = world.in_flight[1].popleft().request_id
    world.feed(Fetched(request_id, fetch.Response(responses=[])))
    assert asked(world, 1) == [(0, 0)]


def test_topics_with_ids_are_asked_for_by_name_and_id() -> None:
    world = World()
    fresh = metadata(world.leaders)
    fresh.topics[0].topic_id = bytes(range(16))
    world.cluster.update(fresh, world.now)
    world.assign(0)
    world.recover()
    [waiting] = world.in_flight[1]
    assert waiting.request.topics[0].topic_id == bytes(range(16))
    outcome = fetch.PartitionData(
        partition_index=0, error_code=0, high_watermark=9, aborted_transactions=None, records=None
    )
    topic = fetch.TopicResponse(topic_id=bytes(range(16)), partitions=[outcome])
    world.in_flight[1].clear()
    world.feed(Fetched(waiting.request_id, fetch.Response(responses=[topic])))
    assert world.reader(0).end_offset == 9


def test_the_end_is_that_of_the_isolation_level() -> None:
    world = connected(0)
    world.answer(1)
    assert world.reader(0).end_offset == 60
    world = connected(0, isolation_level=IsolationLevel.READ_COMMITTED)
    world.answer(1)
    assert world.reader(0).end_offset == 57


def test_a_node_that_failed_unasked_is_taken_note_of() -> None:
    world = connected(0)
    world.feed(NodeFailed(2))
    assert world.wants_metadata


@pytest.mark.parametrize("seed", range(30))
def test_every_record_is_returned_once_and_in_order(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    expected = [0, 0, 0]
    for partition in range(3):
        world.assign(partition)
    for _ in range(400):
        something_happens(world, dice, expected)
        buffered = world.fetcher.buffered_bytes
        reserved = sum(request.request.max_bytes for q in world.in_flight.values() for request in q)
        assert buffered + reserved <= 1_000
    for partition in range(3):
        world.reader(partition).is_paused = False
        world.fetcher.resumed(world.reader(partition))
    for _ in range(300):
        world.recover()
        world.answer(1)
        world.answer(2)
        take(world, expected)
        world.expire(0.3)
    assert expected == [log.end_offset for log in world.logs]


def something_happens(world: World, dice: random.Random, expected: list[int]) -> None:
    node, partition = dice.choice([1, 2]), dice.randrange(3)
    match dice.randrange(12):
        case 0 | 1 | 2:
            world.answer(node)
        case 3 | 4:
            take(world, expected)
        case 5 | 6:
            world.recover()
        case 7:
            world.logs[partition].append()
        case 8:
            world.fail(node)
        case 9:
            world.leaders[partition] = node
            world.epochs[partition] += 1
        case 10:
            expected[partition] = dice.randrange(world.logs[partition].end_offset)
            world.reader(partition).seek(expected[partition])
            world.feed(Changed())
        case _:
            reader = world.reader(partition)
            reader.is_paused = not reader.is_paused
            world.fetcher.resumed(reader)
            world.expire(dice.choice([0.05, 1.0]))


def take(world: World, expected: list[int]) -> None:
    for record in world.take():
        assert record.offset == expected[record.partition]
        assert record.value == b"%d" % record.offset
        expected[record.partition] += 1
