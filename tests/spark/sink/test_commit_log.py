"""The records of the commit log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_minikafka.sink.commit_log import decode_commit, encode_commit
from pyspark_minikafka.sink.errors import UnsupportedWriteError
from pyspark_minikafka.sink.protocol import CommitRecord, Part

parts = st.builds(
    Part, st.text(max_size=9), st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.booleans()
)


@st.composite
def records(draw: st.DrawFn) -> CommitRecord:
    made = draw(st.lists(parts, unique_by=lambda part: part.transactional_id, max_size=5))
    names = [part.transactional_id for part in made]
    slot = st.sampled_from(names) | st.text(max_size=9) if names else st.text(max_size=9)
    slots = draw(st.dictionaries(st.integers(0, 20), slot, max_size=5))
    return CommitRecord(draw(st.text(max_size=9)), draw(st.integers(0, 2**40)), tuple(made), slots)


@given(records())
def test_recorded_batches_are_read(record: CommitRecord) -> None:
    assert decode_commit(encode_commit(record)) == record


def test_the_format_is_stable() -> None:
    part = Part("sink-query-1", 1000, 7, is_two_phase=True)
    record = CommitRecord("run", 3, (part,), {0: "sink-query-1", 1: "sink-query-0"})
    assert encode_commit(record) == (
        b'{"version":1,"run":"run","batch":3,"transactions":[["sink-query-1",1000,7,true]],'
        b'"slots":{"0":0,"1":"sink-query-0"}}'
    )


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"\xff",
        b"{}",
        b'{"version":1}',
        b'{"version":1,"run":"r","batch":1,"transactions":[[1]],"slots":{}}',
        b'{"version":1,"run":"r","batch":1,"transactions":[],"slots":{"0":4}}',
    ],
)
def test_records_of_other_programs_are_refused(value: bytes) -> None:
    with pytest.raises(UnsupportedWriteError, match="commitLogTopic"):
        decode_commit(value)


def test_a_later_format_is_refused() -> None:
    with pytest.raises(UnsupportedWriteError, match="upgrade"):
        decode_commit(b'{"version":2}')
