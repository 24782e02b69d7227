"""Transactions of our own producers, trio and blocking, read by the other clients."""

from __future__ import annotations

import pytest
import trio

from minikafka_client import Producer, TopicPartition
from minikafka_client import sync as blocking
from tests.interop.clients import CLIENTS
from tests.interop.transactional import READERS, Run, Transaction, committed_offset

pytestmark = pytest.mark.interop

PARTITIONS = 2


class Abort(Exception):
    """What the block is left with."""


def run_on_trio(bootstrap: str, topic: str, group: str, name: str, work: list[Transaction]) -> None:
    async def do(producer: Producer, one: Transaction) -> None:
        async with producer.transaction() as transaction:
            for number, value in enumerate(one.values):
                await producer.send(topic, value, partition=number % 2)
            if one.offset is not None:
                await transaction.send_offsets({TopicPartition(topic, 0): one.offset}, group)
            if not one.commits:
                await producer.flush()
                raise Abort

    async def main() -> None:
        async with Producer(bootstrap, transactional_id=name) as producer:
            for one in work:
                try:
                    await do(producer, one)
                except Abort:
                    assert not one.commits

    trio.run(main)


def run_blocking(
    bootstrap: str, topic: str, group: str, name: str, work: list[Transaction]
) -> None:
    def do(producer: blocking.Producer, one: Transaction) -> None:
        with producer.transaction() as transaction:
            for number, value in enumerate(one.values):
                producer.send(topic, value, partition=number % 2)
            if one.offset is not None:
                transaction.send_offsets({TopicPartition(topic, 0): one.offset}, group)
            if not one.commits:
                producer.flush()
                raise Abort

    with blocking.Producer(bootstrap, transactional_id=name) as producer:
        for one in work:
            try:
                do(producer, one)
            except Abort:
                assert not one.commits


FACES = pytest.mark.parametrize("run", [run_on_trio, run_blocking])


@FACES
def test_all_or_nothing(bootstrap: str, topic: str, run: Run) -> None:
    work = [
        Transaction([b"%d-%d" % (number, each) for each in range(6)], commits=number % 3 != 1)
        for number in range(9)
    ]
    work.append(Transaction([b"last", b"last"], commits=True))
    run(bootstrap, topic, f"{topic}-group", f"{topic}-id", work)
    expected = sorted(value for one in work if one.commits for value in one.values)
    # 28 records in each partition, and a marker for each of ten transactions.
    for reader in CLIENTS:
        assert sorted(READERS[reader](bootstrap, topic, [38, 38])) == expected, reader


@FACES
def test_offsets_count_with_their_transaction(bootstrap: str, topic: str, run: Run) -> None:
    group, name = f"{topic}-group", f"{topic}-id"
    run(bootstrap, topic, group, name, [Transaction([b"a"], commits=True, offset=5)])
    assert committed_offset(bootstrap, topic, group) == 5
    run(bootstrap, topic, group, name, [Transaction([b"b"], commits=False, offset=9)])
    assert committed_offset(bootstrap, topic, group) == 5
