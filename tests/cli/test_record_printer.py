"""The printer behind `consume`, with a consumer made of lists and a stdout without a descriptor.

So nothing runs in a thread, and the clock can jump.
"""

import math
from collections.abc import Mapping
from typing import cast

import pytest
import trio
import trio.testing

from minikafka.cli.record_printer import RecordPrinter
from minikafka_client import Consumer, ConsumerRecord, KafkaError, TopicPartition

FIRST = TopicPartition("orders", 0)


class ListConsumer:
    """Returns lists of records; on `None`, waits until the timeout."""

    def __init__(self, polls: list[list[ConsumerRecord] | None]) -> None:
        self.commits: list[Mapping[TopicPartition, int]] = []
        self.commit_error: KafkaError | None = None
        self.commits_hang = False
        self._polls = iter(polls)

    async def poll(self, max_records: int, timeout_ms: float | None) -> list[ConsumerRecord]:
        await trio.lowlevel.checkpoint()
        records = next(self._polls, None)
        if records is not None:
            assert len(records) <= max_records
            return records
        with trio.move_on_after(math.inf if timeout_ms is None else timeout_ms / 1000):
            await trio.sleep_forever()
        return []

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.commits_hang:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        self.commits.append(dict(offsets))
        if self.commit_error is not None:
            raise self.commit_error


def records(first: int, count: int) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("orders", 0, offset, 0, None, b"%d" % offset, ())
        for offset in range(first, first + count)
    ]


def printer_of(
    consumer: ListConsumer,
    *,
    max_records: int | None = None,
    timeout_s: float | None = None,
    commits: bool = True,
) -> RecordPrinter:
    printer = RecordPrinter(
        lambda record: (record.value or b"") + b"\n",
        max_records=max_records,
        timeout_s=timeout_s,
        commits=commits,
    )
    printer.consumer = cast("Consumer", consumer)
    return printer


async def test_written_records_are_committed_within_a_second(
    autojump_clock: trio.testing.MockClock, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    consumer = ListConsumer([records(0, 2), records(2, 3)])
    printer = printer_of(consumer)
    with trio.move_on_after(10):
        await printer.run()
    assert consumer.commits == [{FIRST: 2}, {FIRST: 5}]
    assert printer.printed == 5
    assert capsysbinary.readouterr().out == b"0\n1\n2\n3\n4\n"


async def test_without_a_group_nothing_is_committed(
    autojump_clock: trio.testing.MockClock, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    consumer = ListConsumer([records(0, 2)])
    printer = printer_of(consumer, commits=False, timeout_s=5)
    await printer.run()
    await printer.commit()
    assert consumer.commits == []
    assert capsysbinary.readouterr().out == b"0\n1\n"


async def test_no_more_records_are_polled_than_wanted(
    autojump_clock: trio.testing.MockClock, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    consumer = ListConsumer([records(0, 3), records(3, 1)])
    printer = printer_of(consumer, max_records=4)
    await printer.run()
    assert printer.printed == 4
    await printer.commit()
    assert consumer.commits[-1] == {FIRST: 4}
    assert capsysbinary.readouterr().out.count(b"\n") == 4


async def test_the_timeout_counts_from_the_last_record(
    autojump_clock: trio.testing.MockClock, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    consumer = ListConsumer([records(0, 1), [], records(1, 1)])
    printer = printer_of(consumer, timeout_s=3)
    await printer.run()
    assert printer.printed == 2
    assert capsysbinary.readouterr().out == b"0\n1\n"


async def test_a_cancelled_commit_is_repeated(
    autojump_clock: trio.testing.MockClock, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    consumer = ListConsumer([records(0, 2)])
    consumer.commits_hang = True
    printer = printer_of(consumer)
    with trio.move_on_after(5):
        await printer.run()
    consumer.commits_hang = False
    await printer.commit()
    assert consumer.commits == [{FIRST: 2}]
    await printer.commit_before_rebalance([FIRST])
    assert consumer.commits == [{FIRST: 2}]
    assert capsysbinary.readouterr().out == b"0\n1\n"


async def test_a_refused_commit_is_noted_and_not_repeated(
    capsys: pytest.CaptureFixture[str], autojump_clock: trio.testing.MockClock
) -> None:
    consumer = ListConsumer([records(0, 1)])
    consumer.commit_error = KafkaError("the group moved on")
    printer = printer_of(consumer, timeout_s=0.5)
    await printer.run()
    await printer.commit()
    assert consumer.commits == [{FIRST: 1}]
    assert capsys.readouterr().err == (
        "the offsets of the last records were not committed: the group moved on\n"
    )
