"""Logs that were truncated, topics recreated, replicas in place of leaders (KIP-320, 516, 392)."""

from __future__ import annotations

import logging

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch
from minikafka_client import types
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.errors import LogTruncationError, NoOffsetError
from tests.client.core.fetcher_world import World, config
from tests.client.core.sender_world import TOPIC

WHERE = types.TopicPartition(TOPIC, 0)


def reading(
    reset: types.AutoOffsetReset = types.AutoOffsetReset.EARLIEST,
    epochs: tuple[int, ...] = (0, 0, 0),
) -> World:
    """A world whose partition 0 has one batch of three records per epoch, led by node 1."""
    world = World(settings=config(auto_offset_reset=reset), record_count=0)
    for epoch in epochs:
        world.logs[0].append(epoch)
    world.assign(0)
    world.recover()
    return world


def take_all(world: World) -> list[int]:
    taken: list[types.ConsumerRecord] = []
    while found := world.take():
        taken += found
    return [record.offset for record in taken]


def phase_of(reader: PartitionReader) -> Phase:
    return reader.phase


def asked(world: World, node: int) -> list[tuple[int, int]]:
    """(offset, epoch of the record before it) of the fetches that a broker has not answered."""
    return [
        (each.fetch_offset, each.last_fetched_epoch)
        for waiting in world.in_flight[node]
        for _, each in waiting.partitions
    ]


def test_each_fetch_says_of_which_epoch_the_record_before_it_was() -> None:
    world = reading(epochs=(0, 2))
    assert asked(world, 1) == [(0, -1)]
    world.answer(1)
    assert asked(world, 1) == [(6, 2)]


def test_a_new_epoch_alone_is_no_truncation() -> None:
    world = reading()
    world.answer(1)
    world.move_leader(0, 2)
    world.logs[0].append(1)
    world.answer(1)
    world.recover()
    world.recover()
    world.answer(2)
    assert take_all(world) == list(range(12))
    assert asked(world, 2) == [(12, 1)]


@pytest.mark.parametrize("reset", [types.AutoOffsetReset.EARLIEST, types.AutoOffsetReset.LATEST])
def test_after_a_truncation_reading_continues_where_the_logs_diverge(
    reset: types.AutoOffsetReset, caplog: pytest.LogCaptureFixture
) -> None:
    world = reading(reset)
    world.answer(1)
    assert take_all(world) == list(range(9))
    world.logs[0].truncate(3)
    world.logs[0].append(1)
    with caplog.at_level(logging.WARNING):
        world.answer(1)
    assert "partition 0 of topic 'topic' was truncated" in caplog.text
    assert world.reader(0).position == 3
    world.answer(1)
    assert take_all(world) == [3, 4, 5]


def test_without_a_reset_policy_the_error_says_where_the_logs_diverge() -> None:
    world = reading(types.AutoOffsetReset.NONE)
    world.answer(1)
    take_all(world)
    world.logs[0].truncate(3)
    world.logs[0].append(1)
    world.answer(1)
    reader = world.reader(0)
    error = reader.error
    assert isinstance(error, LogTruncationError)
    assert isinstance(error, NoOffsetError)  # code that handles the one handles the other, too
    assert error.partition == WHERE
    assert error.position == types.OffsetAndMetadata(
        9, "", -1
    )  # nobody settled what was handed out
    assert error.divergent_offset == types.OffsetAndMetadata(3, "", 0)
    assert "truncated to offset 3, and records before 9 were read; seek to 3" in str(error)
    reader.seek(3, 0)
    world.expire()
    world.answer(1)
    assert take_all(world) == [3, 4, 5]


def test_what_was_not_consumed_is_fetched_again_silently() -> None:
    world = reading(types.AutoOffsetReset.NONE, epochs=(0,))
    world.answer(1)
    for epoch in (0, 1):
        world.logs[0].append(epoch)
    world.answer(1)  # 3 to 8, of epochs 0 and 1
    assert world.take()[-1].offset == 2
    assert asked(world, 1) == [(9, 1)]
    world.logs[0].truncate(3)
    world.logs[0].append(2)
    world.answer(1)
    assert asked(world, 1) == [(3, 0)]
    world.answer(1)
    assert take_all(world) == [3, 4, 5]
    assert phase_of(world.reader(0)) is Phase.READY


def test_a_run_in_the_application_s_hands_comes_before_the_news() -> None:
    world = reading(types.AutoOffsetReset.NONE)
    world.answer(1)
    reader = world.reader(0)
    run = reader.fetched.popleft()  # the application works on it
    world.logs[0].truncate(3)
    world.answer(1)
    assert (phase_of(reader), asked(world, 1)) == (Phase.READY, [])
    reader.position = run.next_offset
    world.expire()
    world.answer(1)
    assert isinstance(reader.error, LogTruncationError)


def test_an_epoch_that_was_only_guessed_too_high_is_put_right() -> None:
    world = reading()
    world.logs[0].append(3)  # epochs: 0 until 9, 3 from there on
    world.reader(0).seek(6, 2)
    world.answer(1)
    assert asked(world, 1) == [(6, 2)]
    world.answer(1)
    assert asked(world, 1) == [(6, 0)]
    world.answer(1)
    assert take_all(world) == [6, 7, 8, 9, 10, 11]


def test_a_committed_offset_of_a_truncated_log_is_noticed() -> None:
    world = World(settings=config(auto_offset_reset=types.AutoOffsetReset.NONE), record_count=0)
    world.logs[0].append(0)
    world.assign(0, None)
    world.reader(0).seek(9, 0)
    world.expire()
    world.recover()
    world.answer(1)
    error = world.reader(0).error
    assert isinstance(error, LogTruncationError)
    assert error.position == types.OffsetAndMetadata(9, "", 0)
    assert error.divergent_offset == types.OffsetAndMetadata(3, "", 0)


# --- topics recreated ---


def recreated(reset: types.AutoOffsetReset) -> World:
    world = World(settings=config(auto_offset_reset=reset), record_count=9)
    world.topic_id = b"a" * 16
    world.update_metadata()
    world.assign(0)
    world.recover()
    world.answer(1)
    world.topic_id = b"b" * 16
    world.update_metadata()
    return world


@pytest.mark.parametrize("reset", [types.AutoOffsetReset.EARLIEST, types.AutoOffsetReset.LATEST])
def test_a_topic_recreated_is_read_from_the_beginning(
    reset: types.AutoOffsetReset, caplog: pytest.LogCaptureFixture
) -> None:
    world = recreated(reset)
    assert take_all(world) == list(range(9))
    with caplog.at_level(logging.WARNING):
        world.answer(1, [ErrorCode.UNKNOWN_TOPIC_ID])
        world.expire(0.2)
    assert "topic 'topic' was deleted and recreated" in caplog.text
    reader = world.reader(0)
    assert (reader.phase, reader.reset_to) == (Phase.RESETTING, types.EARLIEST)


def test_a_topic_recreated_is_an_error_without_a_reset() -> None:
    world = recreated(types.AutoOffsetReset.NONE)
    take_all(world)
    world.answer(1, [ErrorCode.UNKNOWN_TOPIC_ID])
    world.expire(0.2)
    error = world.reader(0).error
    assert isinstance(error, LogTruncationError)
    assert error.divergent_offset.offset == 0


def test_records_of_the_old_topic_that_were_not_consumed_are_dropped() -> None:
    world = recreated(types.AutoOffsetReset.EARLIEST)
    world.answer(1, [ErrorCode.UNKNOWN_TOPIC_ID])
    world.expire(0.2)
    assert phase_of(world.reader(0)) is Phase.RESETTING
    assert take_all(world) == []


def test_a_run_in_the_application_s_hands_comes_before_the_new_topic() -> None:
    world = recreated(types.AutoOffsetReset.EARLIEST)
    reader = world.reader(0)
    run = reader.fetched.popleft()
    world.answer(1, [ErrorCode.UNKNOWN_TOPIC_ID])
    world.expire(0.2)
    assert (phase_of(reader), reader.position) == (Phase.READY, 0)
    reader.position = run.next_offset
    world.expire()
    assert phase_of(reader) is Phase.RESETTING


def test_a_topic_whose_id_was_not_known_is_not_recreated() -> None:
    world = World(record_count=9)
    world.assign(0)
    world.recover()
    world.answer(1)
    world.topic_id = b"a" * 16
    world.update_metadata()
    world.answer(1)
    assert phase_of(world.reader(0)) is Phase.READY
    [waiting] = world.in_flight[1]
    assert waiting.request.session_epoch == 0  # names before, ids now


# --- the nearest replica ---


def near_two() -> World:
    """Node 1 leads partition 0 and sends its readers to node 2."""
    world = World(settings=config(client_rack="here"), record_count=30)
    world.followers = {2}
    world.nearest = 2
    world.assign(0)
    world.recover()
    assert [each.request.rack_id for each in world.in_flight[1]] == ["here"]
    world.answer(1)
    world.recover()
    take_all(world)
    return world


def test_the_replica_that_the_leader_names_is_read_from() -> None:
    world = near_two()
    assert asked(world, 1) == []
    assert len(asked(world, 2)) == 1
    world.answer(2)
    assert take_all(world)[0] > 0
    assert len(asked(world, 2)) == 1


def test_a_follower_is_not_asked_for_truncations_because_lag_looks_the_same() -> None:
    world = near_two()
    [(offset, epoch)] = asked(world, 2)
    assert offset > 0
    assert epoch == -1


def test_a_follower_without_the_offset_sends_its_readers_back_to_the_leader() -> None:
    world = near_two()
    world.answer(2, [ErrorCode.OFFSET_OUT_OF_RANGE])
    assert phase_of(world.reader(0)) is Phase.READY
    assert len(asked(world, 1)) == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE]
)
def test_a_follower_in_trouble_sends_its_readers_back_to_the_leader(code: ErrorCode) -> None:
    world = near_two()
    world.answer(2, [code])
    world.expire(0.2)
    assert len(asked(world, 1)) == 1


def test_a_follower_that_cannot_be_reached_is_left() -> None:
    world = near_two()
    world.fail(2)
    world.expire(0.2)
    assert len(asked(world, 1)) == 1


def test_after_a_while_the_leader_is_asked_again_which_replica_is_nearest() -> None:
    world = near_two()
    world.expire(301)
    world.answer(2)
    assert len(asked(world, 1)) == 1


def test_a_replica_that_has_left_the_cluster_is_not_asked() -> None:
    world = near_two()
    del world.cluster.brokers[2]
    world.in_flight[2].clear()
    world.reader(0).is_fetching = False
    world.expire()
    assert len(asked(world, 1)) == 1


# --- leaders ---


def test_a_leader_that_a_refusal_names_is_asked_without_a_pause() -> None:
    world = World()
    for partition in (0, 1):
        world.assign(partition)
    world.recover()
    world.move_leader(0, 2)
    world.answer(2)
    world.in_flight[2].clear()
    world.answer(1, new_leader=fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=1))
    assert world.reader(0).retry_at == 0.0


def test_a_leader_that_metadata_names_is_asked_without_a_pause() -> None:
    world = reading()
    world.move_leader(0, 2)
    world.answer(1)
    assert world.reader(0).retry_at > world.now
    world.recover()
    world.recover()
    assert len(asked(world, 2)) == 1
