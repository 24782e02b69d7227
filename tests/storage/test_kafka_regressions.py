"""Apache Kafka's own tickets about its log, each as a scenario.

KAFKA-13194 and KAFKA-14055 (compaction) are in test_compaction.py.
"""

import errno

import pytest

from minikafka.protocol.records.batch import iter_batches
from minikafka.storage.errors import OutOfOrderSequence, StorageError
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, value_at, values_by_offset

DAY_MS = 86_400_000


def test_kafka_5634_retention_deletes_nothing_above_the_high_watermark() -> None:
    under_test = LogUnderTest(segment_bytes=200, retention_ms=1, retention_bytes=0)
    under_test.append_many(10)
    log = under_test.log
    log.high_watermark = 3
    log.apply_retention(NOW_MS + DAY_MS)
    assert log.log_start_offset <= 3
    assert set(values_by_offset(log)) >= set(range(3, 10))


def test_kafka_6683_a_failed_append_leaves_no_producer_state() -> None:
    """Or the retry would count as a duplicate and be acknowledged without being stored."""
    under_test = LogUnderTest()
    under_test.append("a", producer=(1, 0, 0))
    under_test.disk.fail("pwritev", ".log")
    with pytest.raises(StorageError):
        under_test.append("b", producer=(1, 0, 1))
    log = under_test.kill()
    result = log.append_as_leader(batch_of("b", producer=(1, 0, 1)), leader_epoch=0, now_ms=NOW_MS)
    assert not result.is_duplicate
    assert values_by_offset(log) == {0: "a", 1: "b"}


def test_kafka_6683_a_refused_append_leaves_no_producer_state() -> None:
    under_test = LogUnderTest(max_message_bytes=200)
    with pytest.raises(Exception, match=r"max\.message\.bytes"):
        under_test.append("x" * 200, producer=(1, 0, 0))
    assert len(under_test.log.producer_state) == 0


@pytest.mark.parametrize("failing", [".index", "snapshot", "leader-epoch"])
def test_kafka_7866_a_failing_index_assigns_no_offset_twice(failing: str) -> None:
    """The records were written, the index failed, and the next append got their offsets."""
    under_test = LogUnderTest(index_interval_bytes=1, segment_bytes=6000)
    accepted: list[str] = []
    under_test.disk.fail("pwritev", failing)
    for number in range(150):
        value = value_at(number)
        try:
            under_test.append(value, leader_epoch=number // 10)
        except StorageError:
            under_test.kill()
            under_test.disk.fail("pwritev", failing)
        else:
            accepted.append(value)
        if number == 100:
            under_test.disk.heal()
    assert under_test.log.is_offline is None
    stored = [
        header.base_offset
        for path in under_test.disk.paths(".log")
        for _, header in iter_batches(under_test.disk.content(path))
    ]
    assert stored == list(range(len(stored)))
    assert list(values_by_offset(under_test.kill()).values()) == accepted


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_kafka_10778_no_append_after_an_io_error(code: int) -> None:
    """The next append would follow bytes of unknown content."""
    under_test = LogUnderTest()
    under_test.append("a")
    under_test.disk.fail("pwritev", ".log", code=code)
    with pytest.raises(StorageError):
        under_test.append("b")
    under_test.disk.heal()
    for _ in range(3):
        with pytest.raises(StorageError):
            under_test.append("c")
    assert values_by_offset(under_test.kill()) == {0: "a"}
    assert under_test.append("c") == 1


def test_kafka_10778_no_acknowledgement_after_a_failed_sync() -> None:
    """After a failed fsync the kernel may have dropped the pages: trying again proves nothing."""
    under_test = LogUnderTest()
    under_test.append("a")
    work = under_test.log.prepare_flush()
    assert work is not None
    under_test.disk.fail("fsync", ".log")
    with pytest.raises(OSError, match="on purpose") as caught:
        work.run()
    error = under_test.log.fail(caught.value)
    under_test.disk.heal()
    assert under_test.log.recovery_point == 0
    with pytest.raises(StorageError) as raised:
        under_test.log.flush()
    assert raised.value is error


@pytest.mark.parametrize("size_bytes_max", [1, 100, 10_000])
def test_kafka_9807_9835_no_read_above_the_bound(size_bytes_max: int) -> None:
    """With any limit, and also when the bound moves between segments."""
    under_test = LogUnderTest(segment_bytes=250)
    under_test.append_many(20)
    for bound in range(21):
        for offset in range(21):
            found = under_test.log.read(
                offset, size_bytes_max=size_bytes_max, upper_bound_offset=bound
            )
            if found.records is None:
                assert offset >= bound
            else:
                content = found.records.read()
                assert all(header.last_offset < bound for _, header in iter_batches(content))


def test_kafka_10533_a_flushed_offset_never_goes_back() -> None:
    for seed in range(40):
        under_test = LogUnderTest(seed=seed)
        under_test.append_many(5)
        under_test.log.flush()
        recovery_point = under_test.log.recovery_point
        under_test.append_many(5)
        under_test.disk.crash(power_loss=True)
        log = under_test.open(recovery_point=recovery_point)
        assert log.log_end_offset >= recovery_point == 5
        assert log.recovery_point >= 5


def test_a_restart_between_a_batch_and_its_retry_makes_no_duplicate() -> None:
    """KAFKA-20357 on one broker: the retry arrives after the crash."""
    under_test = LogUnderTest(segment_bytes=300)
    for sequence in range(12):
        under_test.append(value_at(sequence), producer=(1, 0, sequence))
        log = under_test.kill()
        retry = batch_of(value_at(sequence), producer=(1, 0, sequence))
        assert log.append_as_leader(retry, leader_epoch=0, now_ms=NOW_MS).is_duplicate
    with pytest.raises(OutOfOrderSequence):
        under_test.append("gap", producer=(1, 0, 13))
    assert len(values_by_offset(under_test.log)) == 12
