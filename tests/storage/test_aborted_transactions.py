"""Aborted transactions by the million: little memory for each, and none written again and again."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.control import ControlType
from minikafka.storage.producer_snapshots import PARTIAL_SNAPSHOTS_MAX
from minikafka.storage.transactions import AbortedTransaction, AbortedTransactions
from tests.storage.transactional import ABORT, COMMIT, TransactionalLog, read_committed

SEGMENT_BYTES = 400
"""Two transactions of one record."""


def abort_many(under_test: TransactionalLog, count: int) -> None:
    for number in range(count):
        under_test.write(number % 3, f"aborted {number}")
        under_test.end(number % 3, ABORT)
        under_test.replicate()


def aborted_of(under_test: TransactionalLog) -> list[AbortedTransaction]:
    return list(under_test.log.producer_state.transactions.aborted)


def test_an_aborted_transaction_takes_little_memory() -> None:
    aborted = AbortedTransactions(
        AbortedTransaction(2**40 + at, at * 2, at * 2 + 1, at * 2 + 2) for at in range(10_000)
    )
    assert sum(map(sys.getsizeof, aborted.columns)) < 40 * len(aborted)
    assert aborted[9_999] == AbortedTransaction(2**40 + 9_999, 19_998, 19_999, 20_000)
    aborted.forget_before(10_000)
    assert (len(aborted), aborted[0].last_offset) == (5_000, 10_001)


@pytest.mark.parametrize("how", ["kill", "restart"])
def test_everything_aborted_is_known_after_a_restart(how: str) -> None:
    """More snapshots than continue each other, several times over."""
    under_test = TransactionalLog(segment_bytes=SEGMENT_BYTES)
    abort_many(under_test, 6 * PARTIAL_SNAPSHOTS_MAX)
    expected = aborted_of(under_test)
    assert len(expected) == 6 * PARTIAL_SNAPSHOTS_MAX
    assert len(under_test.names(".snapshot")) > 2 * PARTIAL_SNAPSHOTS_MAX
    getattr(under_test, how)()
    assert aborted_of(under_test) == expected
    assert read_committed(under_test.log) == []


def test_most_snapshots_have_only_what_was_aborted_since_the_last() -> None:
    under_test = TransactionalLog(segment_bytes=SEGMENT_BYTES)
    abort_many(under_test, 100)
    disk = under_test.disk
    sizes = sorted(disk.file_size(path) for path in disk.paths(".snapshot"))
    assert sizes[len(sizes) // 2] < sizes[-1] / 2


def test_a_lost_snapshot_is_replaced_by_reading(caplog: pytest.LogCaptureFixture) -> None:
    under_test = TransactionalLog(segment_bytes=SEGMENT_BYTES)
    abort_many(under_test, 30)
    expected = aborted_of(under_test)
    names = under_test.disk.paths(".snapshot")
    under_test.disk.remove(names[-2])
    under_test.disk.flip_bit(names[-5], 99)
    under_test.kill()
    assert aborted_of(under_test) == expected
    assert "reading producers from the log instead" in caplog.text


def test_retention_leaves_what_it_needs() -> None:
    under_test = TransactionalLog(segment_bytes=SEGMENT_BYTES, retention_bytes=4 * SEGMENT_BYTES)
    abort_many(under_test, 40)
    under_test.log.apply_retention(under_test.disk.now_ms)
    expected = aborted_of(under_test)
    assert 0 < len(expected) < 20
    abort_many(under_test, 4)
    expected += aborted_of(under_test)[len(expected) :]
    under_test.kill(log_start_offset=under_test.log.log_start_offset)
    assert aborted_of(under_test) == expected


@given(
    steps=st.lists(
        st.sampled_from(["abort", "commit", "open", "truncate", "kill", "restart", "delete"]),
        max_size=60,
    )
)
def test_snapshots_never_forget_nor_invent(steps: list[str]) -> None:
    """As a log that is always read from its beginning."""
    under_test = TransactionalLog(segment_bytes=SEGMENT_BYTES)
    for number, step in enumerate(steps):
        producer_id = 1000 + number
        match step:
            case "truncate":
                log = under_test.log
                log.truncate_to(max(log.log_start_offset, log.log_end_offset - 5))
            case "delete":
                under_test.log.advance_log_start_offset(under_test.log.log_end_offset // 2)
            case "kill":
                under_test.kill(log_start_offset=under_test.log.log_start_offset)
            case "restart":
                under_test.restart()
            case _:
                under_test.write(producer_id, step)
                if step != "open":
                    under_test.end(producer_id, COMMIT if step == "commit" else ABORT)
        under_test.replicate()
    expected = aborted_of(under_test)
    start = under_test.log.log_start_offset
    under_test.kill(log_start_offset=start)
    assert aborted_of(under_test) == expected
    for path in under_test.disk.paths(".snapshot"):
        under_test.disk.remove(path)
    under_test.kill(log_start_offset=start)
    assert aborted_of(under_test) == expected


def test_ended_transactions_are_forgotten_with_the_high_watermark() -> None:
    """A follower serves nobody, so nobody asks for its last stable offset."""
    under_test = TransactionalLog()
    transactions = under_test.log.producer_state.transactions
    for number, control_type in enumerate([ABORT, COMMIT, ControlType.ABORT]):
        under_test.write(number, "x")
        under_test.end(number, control_type)
    assert transactions.unsettled_count == 3
    under_test.replicate()
    assert transactions.unsettled_count == 0
