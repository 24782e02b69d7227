"""Deduplication: retries, gaps, epochs, wrapping sequences, forgetting, snapshots (KIP-98)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.batch import SEQUENCE_MAX, BatchHeader, parse_batch_header
from minikafka.protocol.records.control import ControlType, encode_control_batch
from minikafka.storage.checked_file import DamagedFile
from minikafka.storage.errors import InvalidProducerEpoch, OutOfOrderSequence
from minikafka.storage.producer_state import (
    AppendedBatch,
    ProducerStateManager,
)
from tests.storage.batches import NOW_MS, batch_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def header_of(
    sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1
) -> BatchHeader:
    batch = batch_of(*["value"] * count, producer=(producer_id, epoch, sequence))
    return parse_batch_header(batch)


class Producers(ProducerStateManager):
    """Appends like a log: check, then update at the next offset."""

    def __init__(self, producers_max: int = 10) -> None:
        super().__init__(producers_max)
        self.offset = 0

    def ask(self, header: BatchHeader, now_ms: int = NOW_MS) -> AppendedBatch | None:
        return self.check(header, now_ms=now_ms, expiration_ms=DAY_MS)

    def append(self, header: BatchHeader, now_ms: int = NOW_MS) -> AppendedBatch | None:
        duplicate = self.ask(header, now_ms)
        if duplicate is None:
            self.update(header, self.offset, now_ms=now_ms)
            self.offset += header.record_count
        return duplicate

    def append_all(self, sequences: Sequence[int]) -> None:
        for sequence in sequences:
            assert self.append(header_of(sequence)) is None


def test_the_last_five_batches_are_recognised() -> None:
    producers = Producers()
    producers.append_all(range(7))
    for sequence in range(2, 7):
        duplicate = producers.ask(header_of(sequence))
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.last_offset) == (sequence, sequence)
    with pytest.raises(OutOfOrderSequence, match="not among its last 5 batches"):
        producers.ask(header_of(1))


def test_a_retry_must_be_the_whole_batch() -> None:
    producers = Producers()
    producers.append(header_of(0, 3))
    with pytest.raises(OutOfOrderSequence):
        producers.ask(header_of(0, 2))
    assert producers.ask(header_of(0, 3)) is not None


@pytest.mark.parametrize("sequence", [2, 5, SEQUENCE_MAX])
def test_a_gap_is_refused(sequence: int) -> None:
    producers = Producers()
    producers.append(header_of(0))
    with pytest.raises(OutOfOrderSequence, match=f"sequence {sequence} does not follow 0"):
        producers.ask(header_of(sequence))


def test_sequences_wrap() -> None:
    producers = Producers()
    producers.append(header_of(SEQUENCE_MAX - 1, 2))
    producers.append(header_of(0, 2))
    producers.append(header_of(2, 1))
    assert producers.ask(header_of(SEQUENCE_MAX - 1, 2)) is not None


def test_sequences_wrap_inside_a_batch() -> None:
    producers = Producers()
    producers.append(header_of(SEQUENCE_MAX, 3))
    assert producers.append(header_of(2)) is None
    assert producers.ask(header_of(SEQUENCE_MAX, 3)) is not None


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """Kafka's rule, and its gap: retries from before it was forgotten are not recognised."""
    producers = Producers()
    assert producers.append(header_of(1234)) is None
    with pytest.raises(OutOfOrderSequence):
        producers.ask(header_of(1233))


def test_an_old_epoch_is_fenced() -> None:
    producers = Producers()
    producers.append(header_of(0, epoch=3))
    with pytest.raises(InvalidProducerEpoch, match="epoch 2 is fenced by epoch 3"):
        producers.ask(header_of(1, epoch=2))


def test_a_new_epoch_begins_at_zero() -> None:
    producers = Producers()
    producers.append_all([0, 1])
    with pytest.raises(OutOfOrderSequence, match="must be 0, not 2"):
        producers.ask(header_of(2, epoch=1))
    assert producers.append(header_of(0, epoch=1)) is None
    with pytest.raises(InvalidProducerEpoch):
        producers.ask(header_of(1, epoch=0))
    assert producers.ask(header_of(0, epoch=1)) is not None


def test_a_check_changes_nothing() -> None:
    """KAFKA-6683: only what is in the log counts."""
    producers = Producers()
    producers.append(header_of(0))
    for _ in range(3):
        assert producers.ask(header_of(1)) is None
    assert producers.ask(header_of(0)) is not None


def test_idle_producers_are_forgotten() -> None:
    producers = Producers()
    producers.append(header_of(5, producer_id=1), NOW_MS)
    producers.append(header_of(5, producer_id=2), NOW_MS + HOUR_MS)
    assert producers.expire(now_ms=NOW_MS + DAY_MS - 1, expiration_ms=DAY_MS) == 0
    assert producers.expire(now_ms=NOW_MS + DAY_MS, expiration_ms=DAY_MS) == 1
    assert len(producers) == 1
    assert producers.append(header_of(77, producer_id=1), NOW_MS + DAY_MS) is None


def test_an_expired_producer_is_unknown_even_before_it_is_removed() -> None:
    producers = Producers()
    producers.append(header_of(5, epoch=3))
    assert producers.append(header_of(90, epoch=2), NOW_MS + DAY_MS) is None
    assert producers.append(header_of(91, epoch=2), NOW_MS + DAY_MS) is None


def test_writing_keeps_a_producer_alive_whatever_its_timestamps() -> None:
    producers = Producers()
    producers.append(header_of(0, producer_id=1), NOW_MS)
    producers.append(header_of(0, producer_id=2), NOW_MS + 1)
    producers.append(header_of(1, producer_id=1), NOW_MS + 2)
    assert producers.expire(now_ms=NOW_MS + 1 + DAY_MS, expiration_ms=DAY_MS) == 1
    assert [producer.producer_id for producer in producers.active_producers()] == [1]


def test_too_many_producers_evict_the_one_idle_for_longest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    producers = Producers(producers_max=3)
    for producer_id in (1, 2, 3, 1, 4):
        sequence = 1 if producer_id == 1 and len(producers) == 3 else 0
        producers.append(header_of(sequence, producer_id=producer_id))
    assert {producer.producer_id for producer in producers.active_producers()} == {3, 1, 4}
    assert "forgetting producer 2" in caplog.text


def test_a_batch_from_before_a_gap_is_not_a_retry() -> None:
    """While rebuilding: compaction or damage removed the batch in between."""
    producers = Producers()
    producers.update(header_of(0), 0, now_ms=NOW_MS)
    producers.update(header_of(7), 7, now_ms=NOW_MS)
    with pytest.raises(OutOfOrderSequence, match="its last 1 batches"):
        producers.ask(header_of(0))
    assert producers.ask(header_of(8)) is None


def test_a_marker_has_no_sequence() -> None:
    producers = Producers()
    producers.append(header_of(0, epoch=0))
    marker = parse_batch_header(
        encode_control_batch(
            ControlType.COMMIT,
            producer_id=1,
            producer_epoch=1,
            coordinator_epoch=0,
            timestamp=NOW_MS,
        )
    )
    producers.update(marker, 1, now_ms=NOW_MS)
    with pytest.raises(InvalidProducerEpoch):
        producers.ask(header_of(1, epoch=0))
    with pytest.raises(OutOfOrderSequence, match="must be 0, not 9"):
        producers.ask(header_of(9, epoch=1))
    assert producers.append(header_of(0, epoch=1)) is None
    assert producers.last_offsets() == {1: 1}


def test_what_describe_producers_sees() -> None:
    producers = Producers()
    producers.append(header_of(0, 4, epoch=2, producer_id=9))
    (active,) = producers.active_producers()
    assert (active.producer_id, active.producer_epoch, active.last_sequence) == (9, 2, 3)
    assert active.last_timestamp == NOW_MS
    assert (active.coordinator_epoch, active.current_transaction_start_offset) == (-1, -1)
    producers.clear()
    assert producers.active_producers() == []


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from((0, 0, 0, 1))),
        max_size=30,
    )
)
def test_a_snapshot_restores_everything(steps: list[tuple[int, int, int]]) -> None:
    producers = Producers()
    position: dict[int, tuple[int, int]] = {}
    for producer_id, count, bump in steps:
        epoch, sequence = position.get(producer_id, (0, 0))
        if bump:
            epoch, sequence = epoch + 1, 0
        header = header_of(sequence, count, epoch=epoch, producer_id=producer_id)
        assert producers.append(header) is None
        position[producer_id] = (epoch, sequence + count)
    restored = ProducerStateManager()
    content = producers.encode(producers.offset)
    restored.load(content, offset=producers.offset, path="file", now_ms=NOW_MS)
    assert restored.active_producers() == producers.active_producers()
    assert restored.encode(7) == producers.encode(7)


def test_a_snapshot_of_another_offset_is_refused() -> None:
    producers = Producers()
    producers.append(header_of(0))
    before = producers.active_producers()
    with pytest.raises(DamagedFile, match="as of offset 7"):
        producers.load(ProducerStateManager().encode(7), offset=8, path="file", now_ms=0)
    assert producers.active_producers() == before
