"""Batches that are too large for a topic are split, transparently."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Compression, decode_records, parse_batch_header
from minikafka_client.core.batch_split import split_batch
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import BrokerError, ClosedError
from minikafka_client.types import Headers
from tests.client.core.sender_world import TOPIC, World, config

Given = tuple[bytes | None, bytes | None, int, Headers]
RECORDS: st.SearchStrategy[list[Given]] = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        st.integers(-1, 2**40),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=2,
    max_size=20,
)


def batch_of(records: list[Given], compression: Compression = Compression.NONE) -> ProducerBatch:
    batch = ProducerBatch("t", 0, 100_000, now=3.0, deadline=9.0)
    for key, value, timestamp_ms, headers in records:
        assert batch.append(key, value, timestamp_ms, headers) >= 0
    batch.build(compression, None)
    batch.state = BatchState.SENT
    return batch


@given(RECORDS, st.sampled_from([Compression.NONE, Compression.ZSTD]))
def test_two_halves_have_all_records_in_order(
    records: list[Given], compression: Compression
) -> None:
    batch = batch_of(records, compression)
    batch.attempts = 4
    halves, largest = split_batch(batch, compression, None)
    found: list[Given] = []
    for half in halves:
        assert half.payload is not None
        header = parse_batch_header(half.payload, must_be_whole=True)
        assert header.compression is compression
        decoded = decode_records(half.payload, check_crc=True)
        assert len(decoded) == half.record_count > 0
        assert (half.state, half.deadline, half.created_at) == (BatchState.RETRY, 9.0, 3.0)
        assert (half.attempts, half.reserved_bytes) == (4, len(half.payload))
        if compression is Compression.NONE:
            assert len(half) <= largest + 20 * half.record_count
        found += [(r.key, r.value, r.timestamp, list(r.headers)) for r in decoded]
    assert found == [(key, value, timestamp, list(hs)) for key, value, timestamp, hs in records]
    for index, record in enumerate(records):
        part, within = batch.part_of(index)
        assert part.timestamp_of(within) == record[2]


def test_a_split_batch_is_done_when_its_parts_are() -> None:
    batch = batch_of([(None, b"%d" % number, 1, ()) for number in range(6)])
    told: list[str] = []
    batch.on_done.append(lambda: told.append("all"))
    (first, second), _ = split_batch(batch, Compression.NONE, None)
    (third, fourth), _ = split_batch(second, Compression.NONE, None)
    assert (batch.state, batch.payload) == (BatchState.SPLIT, None)
    assert [batch.part_of(index) for index in range(6)] == [
        (first, 0),
        (first, 1),
        (first, 2),
        (third, 0),
        (third, 1),
        (fourth, 0),
    ]
    failure = ClosedError("closed")
    third.succeed(40, -1)
    third.tell()
    fourth.fail(failure)
    fourth.tell()
    assert (second.state, second.error, told) == (BatchState.DONE, failure, [])
    first.succeed(10, -1)
    first.tell()
    assert (batch.state, batch.error, told) == (BatchState.DONE, failure, ["all"])


def world_with(limit: int, **changes: object) -> World:
    world = World(partition_count=1, batch_size=2_000, settings=config(**changes))
    world.batch_size_bytes_max = limit
    return world


@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("limit", [150, 300, 700])
def test_every_record_arrives_once_and_in_order(limit: int, is_idempotent: bool) -> None:
    world = world_with(limit, is_idempotent=is_idempotent, max_in_flight=1)
    for number in range(100):
        world.send(0, b"value %d" % number)
    world.settle()
    world.check()
    assert world.logs[0].values == world.sent[0]
    assert world.sender.outcomes.splits > 0
    assert world.failed == []
    assert world.sender.outcomes.errors == {"MESSAGE_TOO_LARGE": world.sender.outcomes.splits}


def test_later_batches_are_no_larger_than_those_that_were_taken() -> None:
    world = world_with(500)
    for number in range(300):
        world.send(0, b"value %d" % number)
        if number % 100 == 99:
            world.settle()
    splits = world.sender.outcomes.splits
    for number in range(1_000):
        world.send(0, b"later %d" % number)
        if number % 100 == 99:
            world.settle()
    assert world.sender.outcomes.splits == splits
    world.check()


def test_the_limit_is_reckoned_before_compression() -> None:
    world = World(
        partition_count=1, batch_size=20_000, settings=config(compression=Compression.ZSTD)
    )
    world.batch_size_bytes_max = 300
    for number in range(400):
        world.send(0, b"the same value again and again %d" % number)
    world.settle()
    world.check()
    assert world.accumulator.topic_size_bytes[TOPIC] > 600


def test_a_record_that_is_too_large_alone_fails_and_the_others_arrive() -> None:
    world = world_with(300)
    for value in (b"a", b"b" * 500, b"c", b"d"):
        world.send(0, value)
    world.settle()
    assert world.logs[0].values == [b"a", b"c", b"d"]
    [failed] = world.failed
    assert (failed.record_count, failed.error) == (1, failed.error)
    assert isinstance(failed.error, BrokerError)
    assert failed.error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_was_given_up_meanwhile_is_not_split() -> None:
    world = World(partition_count=1, batch_size=2_000, delivery_timeout_s=5.0)
    world.batch_size_bytes_max = 100
    for number in range(20):
        world.send(0, b"value %d" % number)
    world.expire()
    world.recover()
    world.recover()
    world.process(1)
    world.expire(6.0)
    world.answer(1)
    assert world.sender.outcomes.splits == 0
    assert len(world.failed) == 1


@pytest.mark.parametrize("seed", range(20))
def test_splits_and_faults_together_duplicate_and_reorder_nothing(seed: int) -> None:
    dice = random.Random(seed)
    world = World(partition_count=2, batch_size=800)
    world.batch_size_bytes_max = 250
    number = 0
    for _ in range(400):
        node = dice.choice([1, 2])
        match dice.randrange(9):
            case 0 | 1 | 2:
                number += 1
                world.send(dice.randrange(2), b"value %d" % number)
            case 3:
                world.recover()
            case 4:
                world.process(node)
            case 5:
                world.answer(node)
            case 6:
                world.expire(dice.choice([0.0, 0.1, 1.0]))
            case 7 if dice.random() < 0.3:
                world.lose_connection(node)
            case _:
                world.process_zombie(node)
    world.settle()
    world.check()
    assert world.failed == []
