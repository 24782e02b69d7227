"""Flushes: many segments take several rounds; appends during one count for the next."""

from minikafka.storage.log import SEGMENTS_PER_FLUSH_MAX
from tests.storage.batches import NOW_MS, LogUnderTest
from tests.storage.directories import DirectoryUnderTest, append


def test_a_flush_opens_few_files_however_many_segments_there_are() -> None:
    under_test = LogUnderTest(segment_bytes=400, index_interval_bytes=1)
    for number in range(6 * SEGMENTS_PER_FLUSH_MAX):
        under_test.append(f"{number:100}")
    log = under_test.log
    assert len(log.segments) == 3 * SEGMENTS_PER_FLUSH_MAX
    rounds = 0
    while (work := log.prepare_flush()) is not None:
        assert len(work.files) <= SEGMENTS_PER_FLUSH_MAX
        work.run()
        log.complete_flush(work)
        rounds += 1
        assert log.recovery_point == min(2 * rounds * SEGMENTS_PER_FLUSH_MAX, log.log_end_offset)
    assert rounds == 3
    assert log.recovery_point == log.log_end_offset


def test_a_clean_close_syncs_every_segment() -> None:
    under_test = LogUnderTest(segment_bytes=200)
    for number in range(3 * SEGMENTS_PER_FLUSH_MAX):
        under_test.append(f"{number:100}")
    under_test.log.close()
    under_test.disk.crash(power_loss=True)
    assert under_test.open().log_end_offset == 3 * SEGMENTS_PER_FLUSH_MAX


def test_an_append_during_a_flush_is_flushed_after_flush_ms() -> None:
    under_test = LogUnderTest(flush_ms=1000)
    log = under_test.log
    under_test.append("before", now_ms=NOW_MS)
    assert not log.flush_is_due(NOW_MS + 999)
    assert log.flush_is_due(NOW_MS + 1000)
    work = log.prepare_flush()
    assert work is not None
    under_test.append("meanwhile", now_ms=NOW_MS + 1500)
    work.run()
    log.complete_flush(work)
    assert log.recovery_point == 1
    assert not log.flush_is_due(NOW_MS + 2499)
    assert log.flush_is_due(NOW_MS + 2500)
    log.flush()
    assert not log.flush_is_due(NOW_MS + 9999)


def test_logs_that_are_flushed_together_sync_their_common_directory_once() -> None:
    under_test = DirectoryUnderTest()
    logs = [under_test.create("t", number) for number in range(3)]
    works = []
    for log in logs:
        append(log, 1)
        work = log.prepare_flush()
        assert work is not None
        works.append(work)
    directories: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation == "sync_directory":
            directories.append(path)

    under_test.disk.fault = note
    synced: set[str] = set()
    for work in works:
        work.run(synced)
    assert sorted(directories) == ["root", "root/t-0", "root/t-1", "root/t-2"]
    under_test.disk.crash(power_loss=True)
    directory = under_test.open()
    assert [directory.logs["t", number].log_end_offset for number in range(3)] == [1, 1, 1]
