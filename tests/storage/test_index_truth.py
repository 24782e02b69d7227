"""Whatever happens to a log, its index files say what a scan of its batches says.

After a power loss they may say less, or what was true before; lookups still find what a scan finds.

The files are read here as Kafka's tools read them, not with the code under test.
"""

from itertools import pairwise
from struct import Struct

from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.batch import BatchHeader
from minikafka.storage.log import Log
from minikafka.storage.scan import walk_headers
from minikafka.storage.segment import Segment
from minikafka.storage.transactions import AbortedTransaction
from tests.storage.batches import NOW_MS, read_records
from tests.storage.transactional import ABORT, COMMIT, TransactionalLog

INTERVAL_BYTES = 150
OFFSET_ENTRY, TIMESTAMP_ENTRY, ABORTED_ENTRY = Struct(">ii"), Struct(">qi"), Struct(">hqqqq")


class LogUnderSteps:
    """A compacted log of transactions whose timestamps go up and down."""

    def __init__(self) -> None:
        self.under_test = TransactionalLog(
            segment_bytes=600,
            index_interval_bytes=INTERVAL_BYTES,
            cleanup_compact=True,
            min_cleanable_dirty_ratio=0.0,
        )
        self.recovery_point = 0
        self.number = 0
        # What an index says is a claim that is checked before it is believed, so indexes are not
        # synced with what they are about. Segments that power was lost with have what was left.
        self.doubtful: set[int] = set()

    @property
    def log(self) -> Log:
        return self.under_test.log

    def take(self, step: str, amount: int) -> None:
        self.number += 1
        getattr(self, step)(amount)
        self.under_test.replicate()

    def append(self, amount: int) -> None:
        values = [f"{self.number}." + "x" * amount for _ in range(amount % 3 + 1)]
        self.under_test.append(*values, key=f"k{amount % 5}", timestamp=NOW_MS + amount)

    def append_without_timestamp(self, amount: int) -> None:
        self.under_test.append("x" * amount, timestamp=-1)

    def abort(self, amount: int) -> None:
        self._transaction(amount, is_aborted=True)

    def commit(self, amount: int) -> None:
        self._transaction(amount, is_aborted=False)

    def _transaction(self, amount: int, *, is_aborted: bool) -> None:
        self.under_test.write(1000 + self.number, "x" * amount)
        self.under_test.end(1000 + self.number, ABORT if is_aborted else COMMIT)

    def open_transaction(self, amount: int) -> None:
        self.under_test.write(1000 + self.number, "x" * amount)

    def roll(self, _: int) -> None:
        self.log.roll(NOW_MS)

    def flush(self, _: int) -> None:
        self.log.flush()
        self.recovery_point = self.log.recovery_point

    def truncate(self, amount: int) -> None:
        log = self.log
        log.truncate_to(max(log.log_start_offset, log.log_end_offset - amount % 9))

    def delete_records(self, amount: int) -> None:
        log = self.log
        log.advance_log_start_offset(min(log.log_start_offset + amount % 7, log.high_watermark))
        log.apply_retention(NOW_MS)

    def compact(self, _: int) -> None:
        self.log.roll(NOW_MS)
        self.log.flush()
        plan = self.log.plan_compaction(NOW_MS)
        if plan is not None:
            plan.run()
            assert self.log.complete_compaction(plan, NOW_MS)

    def kill(self, _: int) -> None:
        self.under_test.disk.crash()
        self._open()

    def lose_power(self, _: int) -> None:
        self.under_test.disk.crash(power_loss=True)
        self._open()
        self._doubt()

    def restart(self, amount: int) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        loses_power = bool(amount % 2)
        self.under_test.disk.crash(power_loss=loses_power)
        self._open(was_clean=True)
        if loses_power:
            self._doubt()

    def _doubt(self) -> None:
        self.doubtful = {segment.base_offset for segment in self.log.segments}

    def _open(self, *, was_clean: bool = False) -> None:
        log = self.log
        self.under_test.checkpoint()
        self.under_test.open(
            recovery_point=self.recovery_point,
            log_start_offset=log.log_start_offset,
            first_dirty_offset=log.first_dirty_offset,
            segment_sizes=log.segment_sizes() if was_clean else None,
        )

    # --- what has to be true -----------------------------------------------------------------

    def check(self) -> None:
        for segment in self.log.segments:
            batches = list(walk_headers(segment.file, 0, segment.size_bytes))
            is_closed = segment is not self.log.segments[-1]
            if segment.base_offset not in self.doubtful:
                self._check_offsets(segment, batches, is_closed)
                self._check_timestamps(segment, batches, is_closed)
            timestamps = [header.max_timestamp for _, header in batches]
            assert segment.max_timestamp() == max(timestamps, default=-1)
            self._check_aborted(segment)
        self._check_lookups()

    def _content(self, segment: Segment, suffix: str) -> bytes:
        path = segment.path.replace(".log", suffix)
        disk = self.under_test.disk
        return disk.read_file(path, size_bytes_max=10**6) if disk.exists(path) else b""

    def _check_offsets(
        self, segment: Segment, batches: list[tuple[int, BatchHeader]], is_closed: bool
    ) -> None:
        expected: list[tuple[int, int]] = []
        indexed = 0
        for position, header in batches:
            if position and position - indexed >= INTERVAL_BYTES:
                expected.append((header.last_offset - segment.base_offset, position))
                indexed = position
        assert list(segment.index.entries()) == expected
        written = list(OFFSET_ENTRY.iter_unpack(self._content(segment, ".index")))
        assert written == (expected if is_closed else expected[: len(written)])

    def _check_timestamps(
        self, segment: Segment, batches: list[tuple[int, BatchHeader]], is_closed: bool
    ) -> None:
        first_with: dict[int, int] = {}  # each timestamp above all before it: the batch's end
        largest_until: dict[int, int] = {}
        for _, header in batches:
            if header.max_timestamp > max(first_with, default=-1):
                first_with[header.max_timestamp] = header.last_offset - segment.base_offset
            relative_offset = header.last_offset - segment.base_offset
            largest_until[relative_offset] = max(first_with, default=-1)
        entries = list(segment.index.timestamps())
        assert all(first_with[timestamp] == offset for timestamp, offset in entries)
        assert all(one < other for one, other in pairwise(entries))
        for relative_offset, _ in segment.index.entries():
            known = [timestamp for timestamp, offset in entries if offset <= relative_offset]
            assert max(known, default=-1) == largest_until[relative_offset]
        written = list(TIMESTAMP_ENTRY.iter_unpack(self._content(segment, ".timeindex")))
        # A segment so small that no batch has an entry needs no files.
        is_whole = is_closed and bool(list(segment.index.entries()))
        assert written == (entries if is_whole else entries[: len(written)])

    def _check_aborted(self, segment: Segment) -> None:
        forgotten_before = max(self.log.log_start_offset, self.log.first_dirty_offset)
        written = [
            AbortedTransaction(*fields)
            for version, *fields in ABORTED_ENTRY.iter_unpack(self._content(segment, ".txnindex"))
            if version == 0 and fields[2] >= forgotten_before
        ]
        aborted = self.log.producer_state.transactions.aborted
        here = range(segment.base_offset, segment.next_offset)
        assert written == [one for one in aborted if one.last_offset in here]

    def _check_lookups(self) -> None:
        records = read_records(self.log)
        for timestamp in {record.timestamp for record in records}:
            found = self.log.offset_for_timestamp(timestamp)
            assert found is not None
            first = next(one for one in records if one.timestamp >= timestamp)
            assert (found.offset, found.timestamp) == (first.offset, first.timestamp)


STEPS = (
    *("append", "append", "append", "append_without_timestamp"),
    *("abort", "commit", "open_transaction", "roll", "flush", "truncate", "delete_records"),
    *("compact", "kill", "lose_power", "restart"),
)


@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 90)), max_size=50))
def test_indexes_agree_with_a_scan(steps: list[tuple[str, int]]) -> None:
    log = LogUnderSteps()
    for step, amount in steps:
        log.take(step, amount)
        log.check()
