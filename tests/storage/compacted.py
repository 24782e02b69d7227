"""Compacted logs for the storage tests."""

from typing import Any

from minikafka.protocol.records.builder import encode_batch
from minikafka.protocol.records.record import Record
from minikafka.storage.compaction import CompactionPlan
from tests.storage.batches import NOW_MS, LogUnderTest


def compacted_log(**settings: Any) -> LogUnderTest:
    return LogUnderTest(
        **({"cleanup_compact": True, "cleanup_delete": False, "segment_bytes": 400} | settings)
    )


def close_segment(under_test: LogUnderTest) -> None:
    """Close the active segment and make everything committed and durable."""
    log = under_test.log
    log.roll(NOW_MS)
    log.high_watermark = log.log_end_offset
    log.flush()


def plan_of(under_test: LogUnderTest, now_ms: int = NOW_MS) -> CompactionPlan:
    plan = under_test.log.plan_compaction(now_ms)
    assert plan is not None
    return plan


def compact(under_test: LogUnderTest, now_ms: int = NOW_MS) -> None:
    plan = plan_of(under_test, now_ms)
    plan.run()
    assert under_test.log.complete_compaction(plan, now_ms)


def put(under_test: LogUnderTest, *pairs: tuple[str, str | None], **fields: Any) -> None:
    records = [
        (key.encode(), None if value is None else value.encode(), (("h", b"1"),), NOW_MS + i)
        for i, (key, value) in enumerate(pairs)
    ]
    under_test.log.append_as_leader(encode_batch(records, **fields), leader_epoch=0, now_ms=NOW_MS)


def table(records: list[Record]) -> dict[bytes | None, bytes | None]:
    """What a reader of the whole topic ends up with."""
    latest: dict[bytes | None, bytes | None] = {}
    for record in records:
        if record.value is None:
            latest.pop(record.key, None)
        else:
            latest[record.key] = record.value
    return latest
