"""What was cut must stay cut, even after a power failure."""

import errno

import pytest

from minikafka.storage.errors import StorageError
from tests.storage.batches import LogUnderTest, value_at, values_by_offset

FIRST = "00000000000000000000.log"
SEEDS = range(60)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_append_does_not_reappear(code: int) -> None:
    """The producer got an error, and its offset has been assigned to another record."""
    for seed in SEEDS:
        under_test = LogUnderTest(seed=seed)
        under_test.append_many(2)
        under_test.log.flush()
        under_test.disk.fail("pwritev", ".log", code=code)
        with pytest.raises(StorageError):
            under_test.append("refused")
        under_test.disk.heal()
        under_test.kill()
        under_test.append("another")
        under_test.disk.crash(power_loss=True)
        found = values_by_offset(under_test.open())
        assert found in (
            {0: value_at(0), 1: value_at(1)},
            {0: value_at(0), 1: value_at(1), 2: "another"},
        )


def test_bytes_that_recovery_cut_do_not_reappear() -> None:
    for seed in SEEDS:
        under_test = LogUnderTest(seed=seed)
        under_test.append_many(3)
        under_test.log.flush()
        path = under_test.path(FIRST)
        size_bytes = under_test.disk.file_size(path)
        under_test.disk.flip_bit(path, (size_bytes - 1) * 8)
        under_test.kill()
        before = under_test.disk.content(path)
        under_test.disk.crash(power_loss=True)
        assert under_test.disk.content(path) == before
        assert values_by_offset(under_test.open()) == {0: value_at(0), 1: value_at(1)}


def test_fsync_before_the_acknowledgement() -> None:
    """flush.messages=1: what the flush covered survives."""
    for seed in SEEDS:
        under_test = LogUnderTest(seed=seed, segment_bytes=250, flush_messages=1)
        acknowledged = 0
        for number in range(8):
            under_test.append_many(1)
            assert under_test.log.flush_is_due(0)
            if number < 6:
                under_test.log.flush()
                acknowledged = under_test.log.log_end_offset
        under_test.disk.crash(power_loss=True)
        found = values_by_offset(under_test.open())
        assert found.items() >= {i: value_at(i) for i in range(acknowledged)}.items()
