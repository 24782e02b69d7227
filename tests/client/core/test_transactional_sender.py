"""What a transactional sender does, situation by situation."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka_client import errors
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.sender import PartitionsAdded, SendProduce
from minikafka_client.core.transaction import TransactionState
from minikafka_client.core.transactional_sender import LAST_VERSION_WITHOUT_ADDING
from tests.client.core.transaction_world import TransactionWorld

VERSIONS = pytest.mark.parametrize("version", [0, 2])


def open_world(version: int, **changes: object) -> TransactionWorld:
    """A world with connections, and with a transaction in which each partition has a batch."""
    world = TransactionWorld(version, **changes)
    world.begin()
    for partition in range(2):
        world.send(partition, b"first-%d" % partition)
    world.accumulator.close_all()
    world.settle()
    return world


def send(world: TransactionWorld, partition: int, value: bytes) -> ProducerBatch:
    """Send a batch of one record as far as it gets."""
    world.send(partition, value)
    world.accumulator.close_all()
    world.expire()
    return world.handles[-1][0]


def check_commit(world: TransactionWorld) -> None:
    assert world.commit()
    world.check_transactions()


def error_of(batch: ProducerBatch) -> errors.KafkaError | None:
    assert batch.state is BatchState.DONE
    return batch.error


def test_batches_wait_until_their_partition_is_added() -> None:
    world = TransactionWorld(0)
    world.begin()
    world.send(0, b"a")
    world.accumulator.close_all()
    world.expire()
    world.connect(1)
    assert world.asked_to_add == [frozenset({0})]
    assert not any(world.in_flight.values())
    send(world, 1, b"b")
    world.connect(2)
    assert world.asked_to_add == [frozenset({0})]  # one request at a time
    world.add()
    assert world.asked_to_add == [frozenset({1})]
    assert [len(world.in_flight[node]) for node in (1, 2)] == [1, 0]
    world.add()
    assert [len(world.in_flight[node]) for node in (1, 2)] == [1, 1]
    check_commit(world)


def test_from_version_2_on_nothing_is_added() -> None:
    world = open_world(2)
    assert world.commit()
    assert world.machine.producer_epoch == 1
    world.check_transactions()


@VERSIONS
def test_requests_name_the_transaction_and_their_version(version: int) -> None:
    world = open_world(version)
    world.send(0, b"a")
    world.accumulator.close_all()
    [effect] = world.sender.expire(world.now)
    assert isinstance(effect, SendProduce)
    assert effect.request.transactional_id == "id"
    assert (effect.version_max <= LAST_VERSION_WITHOUT_ADDING) is (version == 0)


@VERSIONS
def test_sequences_continue_or_restart_with_the_epoch(version: int) -> None:
    world = open_world(version)
    world.commit()
    world.begin()
    send(world, 0, b"a")
    world.settle()
    assert world.accumulator.queues["topic", 0].next_sequence == (2 if version == 0 else 1)
    check_commit(world)


@VERSIONS
def test_an_abort_drops_what_is_unsent_and_awaits_what_is_under_way(version: int) -> None:
    world = open_world(version)
    sent = send(world, 0, b"sent")
    world.send(0, b"unsent")
    unsent = world.handles[-1][0]
    world.machine.abort()
    world.expire()
    assert isinstance(error_of(unsent), errors.TransactionAbortedError)
    assert sent.state is BatchState.SENT
    world.process(1)
    world.answer(1)
    assert error_of(sent) is None
    assert not world.machine.needs_new_epoch


@VERSIONS
def test_what_is_to_be_repeated_is_dropped_with_the_transaction(version: int) -> None:
    world = open_world(version)
    batch = send(world, 0, b"a")
    world.machine.abort()
    world.process(1, ErrorCode.NOT_ENOUGH_REPLICAS)
    world.answer(1)
    assert error_of(batch) is not None
    assert world.machine.needs_new_epoch
    assert world.machine.state is TransactionState.ABORTING


@VERSIONS
def test_what_passes_is_repeated_within_the_transaction(version: int) -> None:
    world = open_world(version)
    batch = send(world, 0, b"a")
    world.process(1, ErrorCode.NOT_ENOUGH_REPLICAS)
    world.answer(1)
    assert batch.state is BatchState.RETRY
    check_commit(world)


@VERSIONS
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ],
)
def test_a_batch_that_is_refused_takes_the_transaction_with_it(
    version: int, code: ErrorCode
) -> None:
    world = open_world(version)
    refused = send(world, 0, b"a")
    world.send(1, b"b")
    other = world.handles[-1][0]
    world.process(1, code)
    world.answer(1)
    error = error_of(refused)
    assert error is not None
    assert error.code is code
    dropped = error_of(other)
    assert isinstance(dropped, errors.TransactionAbortedError)
    assert dropped.__cause__ is error
    assert world.machine.state is TransactionState.ABORTABLE
    assert not world.commit()
    world.begin()
    send(world, 0, b"again")
    check_commit(world)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ],
)
def test_a_producer_that_is_fenced_cannot_be_used_again(code: ErrorCode) -> None:
    world = open_world(2)
    send(world, 0, b"a")
    world.process(1, code)
    world.answer(1)
    assert world.machine.state is TransactionState.FATAL
    assert not world.accumulator.batches()
    with pytest.raises(errors.KafkaError) as caught:
        world.machine.check_open()
    assert caught.value.code is code


@VERSIONS
def test_out_of_order_behind_an_undecided_batch_was_to_be_expected(version: int) -> None:
    world = open_world(version)
    first = send(world, 0, b"a")
    second = send(world, 0, b"b")
    world.process(1, ErrorCode.NOT_ENOUGH_REPLICAS)
    world.process(1)
    world.answer(1)
    world.answer(1)
    assert [first.state, second.state] == [BatchState.RETRY, BatchState.RETRY]
    check_commit(world)


@VERSIONS
def test_a_batch_that_takes_too_long_takes_the_transaction_with_it(version: int) -> None:
    world = open_world(version, delivery_timeout_s=20.0)
    batch = send(world, 0, b"a")
    world.expire(20.0)
    assert isinstance(error_of(batch), errors.DeliveryTimeoutError)
    assert world.machine.state is TransactionState.ABORTABLE
    assert world.machine.needs_new_epoch
    assert not world.commit()
    world.begin()
    send(world, 0, b"b")
    check_commit(world)


def test_a_partition_that_cannot_be_added_takes_the_transaction_with_it() -> None:
    world = TransactionWorld(0)
    world.begin()
    batch = send(world, 0, b"a")
    world.connect(1)
    world.add(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(error_of(batch), errors.TransactionAbortedError)
    assert world.machine.state is TransactionState.ABORTABLE


def test_an_answer_to_an_addition_that_was_given_up_means_nothing() -> None:
    world = TransactionWorld(0)
    world.begin()
    send(world, 0, b"a")
    world.connect(1)
    assert len(world.asked_to_add) == 1
    world.abort()
    assert world.epoch == 1  # it may still arrive
    late = PartitionsAdded(errors.BrokerError(ErrorCode.PRODUCER_FENCED))
    world.run(world.sender.handle(late, world.now))
    assert world.machine.state is TransactionState.READY


@VERSIONS
def test_the_parts_of_a_batch_that_is_too_large_belong_to_the_transaction(version: int) -> None:
    world = open_world(version)
    for number in range(5):
        world.send(0, b"%d" % number)
    world.batch_size_bytes_max = 90
    world.accumulator.close_all()
    check_commit(world)


@VERSIONS
def test_what_comes_late_belongs_to_no_other_transaction(version: int) -> None:
    world = open_world(version)
    send(world, 0, b"late")
    world.lose_connection(1)
    world.abort()
    world.begin()
    send(world, 0, b"next")
    world.settle()
    world.process_zombie(1)
    send(world, 0, b"and one more")
    check_commit(world)
