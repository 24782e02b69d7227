"""Compaction: the last record of each key stays, nothing else changes, crashes included."""

from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.crc import crc32c
from minikafka.protocol.records.batch import BatchHeader, iter_batches
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.control import ControlType, encode_control_batch
from minikafka.protocol.records.record import Record
from minikafka.storage.compaction import OffsetMap
from tests.kit.examples import examples
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, read_records
from tests.storage.compacted import close_segment, compact, compacted_log, plan_of, put, table

DAY_MS = 86_400_000


def headers(under_test: LogUnderTest) -> list[BatchHeader]:
    return [
        header
        for path in under_test.disk.paths(".log")
        for _, header in iter_batches(under_test.disk.content(path))
    ]


# --- what stays -----------------------------------------------------------------------------------

keys = st.sampled_from([f"k{i}" for i in range(6)] + ["a key that is longer than sixteen bytes"])
values = st.one_of(st.none(), st.text(max_size=10))
batches_of_pairs = st.lists(
    st.lists(st.tuples(keys, values), min_size=1, max_size=4), min_size=1, max_size=25
)


@settings(max_examples=examples(60))
@given(
    rounds=st.lists(batches_of_pairs, min_size=1, max_size=3),
    compression=st.sampled_from((Compression.NONE, Compression.ZSTD)),
    keys_max=st.sampled_from((1, 3, 100)),
    restart=st.booleans(),
)
def test_a_reader_of_the_whole_topic_sees_no_difference(
    rounds: list[list[list[tuple[str, str | None]]]],
    compression: Compression,
    keys_max: int,
    restart: bool,
) -> None:
    under_test = compacted_log(min_cleanable_dirty_ratio=0.0)
    everything: dict[int, Record] = {}
    for batches in rounds:
        start = under_test.log.log_end_offset
        compacted_before = under_test.log.first_dirty_offset
        for pairs in batches:
            put(under_test, *pairs, compression=compression)
        close_segment(under_test)
        everything |= {record.offset: record for record in read_records(under_test.log, start)}
        plan = plan_of(under_test)
        plan.keys_max = keys_max
        plan.run()
        assert under_test.log.complete_compaction(plan, NOW_MS)
        if restart:
            under_test.restart()
            under_test.log.high_watermark = under_test.log.log_end_offset
        left = read_records(under_test.log)
        assert all(everything[record.offset] == record for record in left)
        assert table(left) == table(list(everything.values()))
        newest = {record.key: record.offset for record in everything.values()}
        end = under_test.log.first_dirty_offset
        assert compacted_before < end <= under_test.log.log_end_offset
        if end == under_test.log.log_end_offset:
            kept = {r.offset for r in left}
            assert kept == set(newest.values())
        for offset in range(0, under_test.log.log_end_offset, 3):
            found = [record.offset for record in read_records(under_test.log, offset)]
            assert found == [record.offset for record in left if record.offset >= offset]


def test_segments_that_shrank_become_one() -> None:
    under_test = compacted_log()
    for number in range(40):
        put(under_test, ("same", f"value-{number}"))
    close_segment(under_test)
    before = len(under_test.log.segments)
    compact(under_test)
    compact_again = under_test.log.plan_compaction(NOW_MS)
    assert compact_again is None
    put(under_test, ("same", "last"))
    close_segment(under_test)
    under_test.log.config = compacted_log(min_cleanable_dirty_ratio=0.1).config
    compact(under_test)
    assert before > 8
    assert len(under_test.log.segments) < before / 2
    assert [record.value for record in read_records(under_test.log)] == [b"last"]
    assert under_test.log.log_start_offset == 0
    assert under_test.names(".cleaned") == under_test.names(".swap") == []


def test_an_untouched_batch_is_copied_byte_for_byte() -> None:
    under_test = compacted_log()
    put(under_test, ("a", "1"), ("b", "2"))
    close_segment(under_test)
    before = under_test.disk.content(under_test.disk.paths(".log")[0])
    compact(under_test)
    assert under_test.disk.content(under_test.disk.paths(".log")[0]) == before


def test_records_without_a_key_are_removed() -> None:
    """They are from before the topic was compacted."""
    under_test = compacted_log(cleanup_compact=False)
    under_test.append("no key", key=None)
    under_test.append("key")
    close_segment(under_test)
    under_test.log.config = compacted_log().config
    compact(under_test)
    assert [record.offset for record in read_records(under_test.log)] == [1]


def test_a_batch_that_cannot_be_decoded_stays() -> None:
    """A batch that cannot be decoded is its producer's problem, not a reason to stop."""
    under_test = compacted_log(cleanup_compact=False)
    batch = bytearray(batch_of("abc"))
    batch[61:65] = b"\xff\xff\xff\xff"
    batch[17:21] = crc32c(batch, 21).to_bytes(4, "big")
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, from_client=False)
    under_test.append("x")
    close_segment(under_test)
    under_test.log.config = compacted_log().config
    compact(under_test)
    assert [header.base_offset for header in headers(under_test)] == [0, 1]


# --- tombstones -----------------------------------------------------------------------------------


def test_a_tombstone_stays_for_delete_retention_ms() -> None:
    """KIP-534: counted from the compaction that removed everything older."""
    under_test = compacted_log(delete_retention_ms=DAY_MS, min_cleanable_dirty_ratio=0.0)
    put(under_test, ("a", "1"), ("b", "1"))
    put(under_test, ("a", None))
    close_segment(under_test)
    compact(under_test)
    assert [record.offset for record in read_records(under_test.log)] == [1, 2]
    (tombstone,) = (header for header in headers(under_test) if header.has_delete_horizon)
    assert tombstone.base_timestamp == NOW_MS + DAY_MS
    for now_ms, left in [(NOW_MS + DAY_MS - 1, [1, 2, 3]), (NOW_MS + DAY_MS, [1, 3, 4])]:
        put(under_test, ("c", "1"))
        close_segment(under_test)
        compact(under_test, now_ms)
        found = [record.offset for record in read_records(under_test.log)]
        assert found in (left, [offset for offset in left if offset != 3])
    assert table(read_records(under_test.log)) == {b"b": b"1", b"c": b"1"}


# --- what may be compacted ------------------------------------------------------------------------


def test_only_segments_below_the_high_watermark_are_compacted() -> None:
    """KAFKA-13194."""
    under_test = compacted_log()
    for _ in range(3):
        put(under_test, ("same", "x"))
        close_segment(under_test)
    under_test.log.high_watermark = 2
    plan = plan_of(under_test)
    assert [source.base_offset for group in plan.groups for source in group] == [0, 1]


def test_only_durable_segments_are_compacted() -> None:
    under_test = compacted_log()
    for _ in range(3):
        put(under_test, ("same", "x"))
        under_test.log.roll(NOW_MS)
    under_test.log.high_watermark = 3
    assert under_test.log.plan_compaction(NOW_MS) is None
    under_test.log.flush()
    assert under_test.log.plan_compaction(NOW_MS) is not None


def test_the_active_segment_is_never_compacted() -> None:
    under_test = compacted_log()
    put(under_test, ("same", "x"))
    under_test.log.high_watermark = 1
    under_test.log.flush()
    assert under_test.log.plan_compaction(NOW_MS) is None


def test_min_compaction_lag_ms() -> None:
    under_test = compacted_log(min_compaction_lag_ms=1000)
    put(under_test, ("same", "x"))
    close_segment(under_test)
    assert under_test.log.plan_compaction(NOW_MS + 999) is None
    assert under_test.log.plan_compaction(NOW_MS + 1000) is not None


def test_min_cleanable_dirty_ratio_and_max_compaction_lag_ms() -> None:
    under_test = compacted_log(segment_bytes=1000)
    for number in range(20):
        put(under_test, (f"key{number}", "x"))
    close_segment(under_test)
    compact(under_test)
    put(under_test, ("one more", "x"))
    close_segment(under_test)
    assert under_test.log.plan_compaction(NOW_MS) is None
    under_test.log.config = compacted_log(max_compaction_lag_ms=5000).config
    assert under_test.log.plan_compaction(NOW_MS + 5000) is None
    assert under_test.log.plan_compaction(NOW_MS + 5001) is not None


def test_the_first_dirty_offset_survives_a_restart() -> None:
    under_test = compacted_log()
    put(under_test, ("same", "x"), ("same", "y"))
    close_segment(under_test)
    compact(under_test)
    log = under_test.restart()
    log.high_watermark = 2
    assert log.first_dirty_offset == 2
    assert log.plan_compaction(NOW_MS) is None


# --- producers, markers, epochs -------------------------------------------------------------------


def test_a_producers_last_sequence_survives() -> None:
    under_test = compacted_log()
    for sequence in range(3):
        put(under_test, ("same", "x"), producer_id=7, producer_epoch=1, base_sequence=sequence)
    put(under_test, ("same", "last"))
    close_segment(under_test)
    compact(under_test)
    assert [(header.base_offset, header.record_count) for header in headers(under_test)] == [
        (2, 0),
        (3, 1),
    ]
    for path in under_test.disk.paths(".snapshot"):
        under_test.disk.remove(path)
    log = under_test.kill(recovery_point=4)
    retry = batch_of("x", producer=(7, 1, 2))
    result = log.append_as_leader(retry, leader_epoch=0, now_ms=NOW_MS)
    assert result.is_duplicate
    assert result.base_offset == 2
    assert [record.offset for record in read_records(log)] == [3]


def test_markers_stay_and_their_keys_do_not_count() -> None:
    """KAFKA-14055: version and type of a marker may equal the bytes of a record's key."""
    under_test = compacted_log()
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
    )
    user_key = "\0\0\0\1"
    put(under_test, (user_key, "user"))
    under_test.log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, from_client=False)
    close_segment(under_test)
    compact(under_test)
    assert [header.is_control for header in headers(under_test)] == [False, True]
    assert read_records(under_test.log)[0].value == b"user"


def test_epochs_stay_with_their_batches() -> None:
    under_test = compacted_log()
    for epoch in (1, 4, 4, 6):
        under_test.append("x", leader_epoch=epoch)
    close_segment(under_test)
    compact(under_test)
    assert [header.partition_leader_epoch for header in headers(under_test)] == [6]
    assert len(read_records(under_test.restart())) == 1


def test_gaps_in_compacted_segments_are_not_damage() -> None:
    """When scanned, their gaps do not count as lost batches, even if the policy has changed."""
    under_test = compacted_log()
    for number in range(6):
        put(under_test, ("same" if number % 2 else f"key{number}", "x"))
        close_segment(under_test)
    compact(under_test)
    offsets = [record.offset for record in read_records(under_test.log)]
    first_dirty_offset = under_test.log.first_dirty_offset
    for is_compacted in (True, False):
        under_test.config = compacted_log(cleanup_compact=is_compacted).config
        log = under_test.kill(first_dirty_offset=first_dirty_offset)
        assert [record.offset for record in read_records(log)] == offsets
        assert log.quarantined == ()
        assert log.log_end_offset == 6


def test_a_compacted_segment_gets_an_index() -> None:
    under_test = compacted_log(index_interval_bytes=200, segment_bytes=4000)
    for number in range(200):
        put(under_test, (f"key{number % 150}", f"value-{number}"))
    close_segment(under_test)
    compact(under_test)
    assert max(segment.index.entry_count for segment in under_test.log.segments) > 5
    for offset in range(50, 200, 7):
        assert read_records(under_test.log, offset)[0].offset == offset
    found = under_test.log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert found.offset == 50


def test_the_map_is_bounded() -> None:
    offset_map = OffsetMap(2)
    fullness: list[bool] = []
    for offset, key in enumerate((b"a", b"b" * 100, b"a"), start=1):
        offset_map.put(key, offset)
        fullness.append(offset_map.is_full)
    assert fullness == [False, True, True]
    assert len(offset_map) == 2
    assert [offset_map.newest(key) for key in (b"a", b"b" * 100, b"c")] == [3, 2, -1]
