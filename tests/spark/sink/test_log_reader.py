"""Reads of the commit log, in which other queries have open transactions."""

from __future__ import annotations

from struct import pack_into
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import (
    ControlType,
    encode_batch,
    encode_control_batch,
)
from pyspark_minikafka.sink.log_reader import newest_committed

KEY = b"mine"


class Step(NamedTuple):
    producer_id: int
    what: str


steps = st.builds(
    Step, st.integers(0, 3), st.sampled_from(["write", "write other", "commit", "abort"])
)


def log_of(story: list[Step]) -> tuple[list[bytes], list[bytes | None]]:
    """The batches, each with the newest value that is committed after it."""
    batches: list[bytes] = []
    newest: list[bytes | None] = []
    pending: dict[int, bytes] = {}
    for offset, (producer_id, what) in enumerate(story):
        if what in ("write", "write other"):
            key = KEY if what == "write" else b"other"
            value = b"%d" % offset
            batch = encode_batch(
                [(key, value, (), 0)],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=offset,
                is_transactional=True,
            )
            if what == "write":
                pending[producer_id] = value
        else:
            kind = ControlType.COMMIT if what == "commit" else ControlType.ABORT
            batch = encode_control_batch(
                kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0
            )
        pack_into(">q", batch, 0, offset)
        batches.append(bytes(batch))
        last = newest[-1] if newest else None
        if what == "commit" and producer_id in pending:
            last = pending[producer_id]
        if what in ("commit", "abort"):
            pending.pop(producer_id, None)
        newest.append(last)
    return batches, newest


@given(story=st.lists(steps, max_size=20), data=st.data())
def test_the_last_committed_record_is_found(story: list[Step], data: st.DataObject) -> None:
    batches, newest = log_of(story)
    begin = data.draw(st.integers(0, len(story)))
    end = data.draw(st.integers(begin, len(story)))
    expected = newest[end - 1] if end else None
    assert newest_committed([b"".join(batches)], KEY, end) == expected
    assert newest_committed(batches, KEY, end) == expected
    # A read of a part of the log finds the same record, or none.
    part = newest_committed(batches[begin:], KEY, end)
    assert part in (None, expected)


def test_records_outside_of_transactions_are_ignored() -> None:
    batch = encode_batch([(KEY, b"value", (), 0)])
    assert newest_committed([batch], KEY, 1) is None
