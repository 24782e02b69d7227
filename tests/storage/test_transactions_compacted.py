"""Transactions and compaction, and everything at once against a list."""

from random import Random

import pytest

from tests.storage.batches import NOW_MS, values_by_offset
from tests.storage.compacted import close_segment, compact
from tests.storage.transactional import (
    ABORT,
    COMMIT,
    TransactionalLog,
    read_committed,
)

DAY_MS = 86_400_000


# --- compaction -----------------------------------------------------------------------------------


def compacted() -> TransactionalLog:
    return TransactionalLog(cleanup_compact=True, cleanup_delete=False, segment_bytes=4_000)


def test_an_aborted_record_hides_no_older_one() -> None:
    under_test = compacted()
    under_test.write(1, "old", key="k")
    under_test.end(1, COMMIT)
    under_test.write(1, "new", key="k")
    under_test.end(1, ABORT)
    close_segment(under_test)
    compact(under_test)
    assert read_committed(under_test.log) == ["old"]
    assert "new" not in values_by_offset(under_test.log).values()


def test_aborted_transactions_are_forgotten_with_their_records() -> None:
    under_test = compacted()
    for number in range(5):
        under_test.write(1, f"v{number}", key=f"k{number}")
        under_test.end(1, ABORT)
    under_test.write(1, "kept", key="k0")
    under_test.end(1, COMMIT)
    close_segment(under_test)
    compact(under_test)
    assert under_test.log.aborted_transactions(0, 99) == []
    assert read_committed(under_test.log) == ["kept"]
    under_test.kill(high_watermark=under_test.log.high_watermark, first_dirty_offset=99)
    assert read_committed(under_test.log) == ["kept"]


def test_an_open_transaction_is_not_compacted() -> None:
    under_test = compacted()
    under_test.append("old", key="k")
    under_test.write(1, "new", key="k")
    close_segment(under_test)
    assert under_test.log.plan_compaction(NOW_MS + DAY_MS) is None


def test_a_plain_batch_of_a_producer_with_an_aborted_transaction_stays() -> None:
    under_test = compacted()
    under_test.write(1, "aborted", key="a")
    under_test.end(1, ABORT)
    under_test.append("plain", key="b", producer=(1, 1, 0))
    close_segment(under_test)
    compact(under_test)
    assert read_committed(under_test.log) == ["plain"]


# --- everything at once ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_random_transactions_against_a_list(seed: int) -> None:
    """Producers, markers, restarts, cuts and compaction against a plain list of records."""
    dice = Random(seed)
    under_test = TransactionalLog(seed=seed, segment_bytes=900, cleanup_compact=seed % 2 == 1)
    history: list[tuple[int, int, str]] = []  # (offset, producer, value or marker)
    number = 0
    for _ in range(120):
        log = under_test.log
        producer_id = dice.randrange(4)
        match dice.randrange(10):
            case 0 | 1 | 2 | 3:
                number += 1
                offset = under_test.write(producer_id, f"{number}", key=f"{number}")
                history.append((offset, producer_id, f"{number}"))
            case 4 | 5:
                kind = dice.choice((COMMIT, ABORT))
                result = under_test.end(producer_id, kind)
                assert result is not None
                history.append((result.base_offset, producer_id, kind.name))
            case 6:
                log.high_watermark = dice.randint(log.high_watermark, log.log_end_offset)
            case 7:
                under_test.checkpoint()
                under_test.kill(
                    high_watermark=log.high_watermark, first_dirty_offset=log.first_dirty_offset
                )
            case 8:
                cut = dice.randint(log.high_watermark, log.log_end_offset)
                log.truncate_to(cut)
                history = [one for one in history if one[0] < cut]
                under_test.sequences = {
                    (one.producer_id, 0): one.last_sequence + 1
                    for one in log.producer_state.active_producers()
                }
            case _:
                log.flush()
                plan = log.plan_compaction(NOW_MS) if seed % 2 else None
                if plan is not None:
                    plan.run()
                    log.complete_compaction(plan, NOW_MS)
        expected, stable = model(history, under_test.log.high_watermark)
        assert under_test.log.last_stable_offset == stable
        assert read_committed(under_test.log) == expected


def model(history: list[tuple[int, int, str]], high_watermark: int) -> tuple[list[str], int]:
    """What read_committed returns, and up to where."""
    fate: dict[int, str] = {}  # by offset of a record
    unstable = [high_watermark]
    for producer in range(4):
        mine = [one for one in history if one[1] == producer]
        begin = None
        for offset, _, what in mine:
            if what in ("COMMIT", "ABORT"):
                if begin is not None and offset >= high_watermark:
                    unstable.append(begin)
                if begin is not None:
                    fate.update({one[0]: what for one in mine if begin <= one[0] < offset})
                begin = None
            elif begin is None:
                begin = offset
        if begin is not None:
            unstable.append(begin)
    stable = min(unstable)
    return [
        what for offset, _, what in history if offset < stable and fate.get(offset) == "COMMIT"
    ], stable
