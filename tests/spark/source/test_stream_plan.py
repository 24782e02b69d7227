"""What each batch of a stream reads: limits, new partitions, and lost records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.types import TopicPartition
from pyspark_minikafka.errors import DataLossError, OptionError
from pyspark_minikafka.lookups import MissingTopicsError
from pyspark_minikafka.options import Options
from pyspark_minikafka.ranges import OffsetRange
from pyspark_minikafka.source_options import stream_options
from pyspark_minikafka.stream_offsets import INITIAL, StreamOffset, from_json
from pyspark_minikafka.stream_plan import EVERYTHING, Admission, StreamPlan, available, limited
from tests.spark.source.brokers import Log, Table

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def plan_on(table: Table, clock: Clock | None = None, **given: str) -> StreamPlan:
    base = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "startingOffsets": "earliest"}
    return StreamPlan(stream_options(Options({**base, **given})), table, clock or Clock())


def step(
    plan: StreamPlan, start: StreamOffset, admission: Admission = EVERYTHING
) -> tuple[StreamOffset, list[tuple[int, int, int]]]:
    """Run a batch as Spark does, through JSON; returns its end and the ranges it reads."""
    end = plan.next(start, admission)
    if end is None:
        return start, []
    end = from_json(json.loads(json.dumps(end.to_json())))
    return end, [spans(each) for each in plan.ranges(start, end)]


def spans(each: OffsetRange) -> tuple[int, int, int]:
    return each.partition.partition, each.start, each.end


# --- where a stream begins ------------------------------------------------------------------------


def test_the_first_batch_begins_at_the_earliest_offsets_and_the_next_where_it_ended() -> None:
    table = Table(t=[10, 20])
    table.logs[T1].start = 5
    plan = plan_on(table)
    end, read = step(plan, INITIAL)
    assert read == [(0, 0, 10), (1, 5, 20)]
    assert step(plan, end) == (end, [])
    table.append(3)
    assert step(plan, end)[1] == [(0, 10, 13), (1, 20, 23)]


def test_the_empty_first_batch_records_what_latest_meant() -> None:
    table = Table(t=[10, 20])
    end, read = step(plan_on(table, startingOffsets="latest"), INITIAL)
    assert read == []
    assert end.offsets == {T0: 10, T1: 20}
    table.append(1)
    # After a restart, no record that arrived in between is skipped.
    assert step(plan_on(table, startingOffsets="latest"), end)[1] == [(0, 10, 11), (1, 20, 21)]


def test_a_repeated_first_batch_reads_the_same_records_despite_new_ones() -> None:
    table = Table(t=[10, 20])
    end, read = step(plan_on(table, startingOffsets="latest"), INITIAL)
    table.append(5)
    again = plan_on(table, startingOffsets="latest")
    assert [spans(each) for each in again.ranges(INITIAL, end)] == read


def test_starting_offsets_must_exist() -> None:
    table = Table(t=[10, 20])
    table.logs[T0].start = 5
    given = '{"t":{"0":2,"1":-1}}'
    with pytest.raises(DataLossError, match="t-0 do not have the offsets of startingOffsets"):
        plan_on(table, startingOffsets=given).next(INITIAL, EVERYTHING)
    end, read = step(plan_on(table, failOnDataLoss="false", startingOffsets=given), INITIAL)
    assert read == [(0, 5, 10)]
    assert end.offsets == {T0: 10, T1: 20}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"t":{"0":2}}', "must name every partition that is read, and leaves out t-1"),
        ('{"t":{"0":2,"1":3,"2":0}}', "names partitions that are not read: t-2"),
    ],
)
def test_starting_offsets_must_name_all_partitions(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        plan_on(Table(t=[10, 20]), startingOffsets=text).next(INITIAL, EVERYTHING)
    assert message in str(caught.value)


def test_a_stream_can_begin_at_a_timestamp() -> None:
    table = Table(t=[10, 20])
    end, read = step(plan_on(table, startingTimestamp="8"), INITIAL)
    assert read == [(0, 8, 10), (1, 8, 20)]
    plan = plan_on(table, startingTimestamp="15")
    with pytest.raises(
        OptionError, match="startingTimestamp: all records of t-0 are earlier than 15"
    ):
        plan.next(INITIAL, EVERYTHING)
    plan = plan_on(table, startingTimestamp="15", startingOffsetsByTimestampStrategy="latest")
    end, read = step(plan, INITIAL)
    assert read == [(1, 15, 20)]
    assert end.offsets == {T0: 10, T1: 20}


def test_an_available_now_query_begins_at_the_end_it_has_frozen() -> None:
    table = Table(t=[10, 20])
    plan = plan_on(table, startingTimestamp="15")
    plan.freeze()
    table.append(100)
    end, read = step(plan, INITIAL)
    assert read == [(1, 15, 20)]
    assert step(plan, end) == (end, [])


# --- how much a batch reads -----------------------------------------------------------------------


def test_a_batch_is_limited_and_the_next_one_reads_the_rest() -> None:
    plan = plan_on(Table(t=[100, 300]))
    end, read = step(plan, INITIAL, Admission(offsets_max=40))
    assert read == [(0, 0, 10), (1, 0, 30)]
    end, read = step(plan, end, Admission(offsets_max=40))
    assert read == [(0, 10, 20), (1, 30, 60)]
    assert step(plan, end)[1] == [(0, 20, 100), (1, 60, 300)]


def test_a_batch_waits_until_the_minimum_is_available() -> None:
    table, clock = Table(t=[10, 0]), Clock()
    plan = plan_on(table, clock, maxTriggerDelay="10s")
    least = Admission(offsets_min=5)
    end, _ = step(plan, INITIAL, least)
    table.append(2)
    assert step(plan, end, least) == (end, [])
    table.append(1)
    assert step(plan, end, least)[1] == [(0, 10, 13), (1, 0, 3)]


def test_the_first_batch_never_waits_for_more() -> None:
    plan = plan_on(Table(t=[1, 0]), maxTriggerDelay="10s")
    least = Admission(offsets_min=5)
    assert step(plan, INITIAL, least)[1] == [(0, 0, 1)]
    assert step(plan, INITIAL, least)[1] == [(0, 0, 1)]


def test_a_batch_waits_no_longer_than_the_trigger_delay() -> None:
    table, clock = Table(t=[10, 0]), Clock()
    plan = plan_on(table, clock, maxTriggerDelay="10s")
    least = Admission(offsets_min=5)
    end, _ = step(plan, INITIAL, least)
    table.append(1)
    clock.now += 9.9
    assert step(plan, end, least) == (end, [])
    clock.now += 0.2
    assert step(plan, end, least)[1] == [(0, 10, 11), (1, 0, 1)]


def test_an_available_now_query_never_waits_for_more() -> None:
    table = Table(t=[10, 0])
    plan = plan_on(table, maxTriggerDelay="10s")
    plan.freeze()
    table.append(100)
    end, read = step(plan, INITIAL, Admission(offsets_max=6, offsets_min=5))
    assert read == [(0, 0, 6)]
    end, read = step(plan, end, Admission(offsets_max=6, offsets_min=5))
    assert read == [(0, 6, 10)]
    assert step(plan, end, Admission(offsets_max=6, offsets_min=5)) == (end, [])


@given(
    ends=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**12)), min_size=1, max_size=6),
    most=st.integers(1, 10**12),
)
def test_limits_hold_and_every_partition_progresses(ends: list[tuple[int, int]], most: int) -> None:
    first = {TopicPartition("t", index): start for index, (start, _) in enumerate(ends)}
    last = {TopicPartition("t", index): start + n for index, (start, n) in enumerate(ends)}
    found = limited(first, last, most)
    for each, end in found.items():
        assert first[each] <= end <= last[each]
        assert end > first[each] or first[each] == last[each] or most * 2 > available(first, last)
    assert available(first, found) <= most + len(ends)


# --- what changes in between ----------------------------------------------------------------------


def test_a_new_partition_is_read_from_its_beginning() -> None:
    table = Table(t=[10])
    plan = plan_on(table, startingOffsets="latest")
    end, _ = step(plan, INITIAL)
    table.logs[T1] = Log(end=7)
    end, read = step(plan, end)
    assert read == [(1, 0, 7)]
    assert step(plan, end) == (end, [])


def test_a_new_partition_without_its_first_records_is_a_loss() -> None:
    table = Table(t=[10])
    plan, tolerant = plan_on(table), plan_on(table, failOnDataLoss="false")
    end, _ = step(plan, INITIAL)
    table.logs[T1] = Log(start=3, end=7)
    with pytest.raises(DataLossError, match="the new partitions t-1 no longer begin at offset 0"):
        plan.next(end, EVERYTHING)
    assert step(tolerant, end)[1] == [(1, 3, 7)]


def test_deleted_partitions_are_a_loss() -> None:
    table = Table(t=[10, 20])
    plan, tolerant = plan_on(table), plan_on(table, failOnDataLoss="false")
    end, _ = step(plan, INITIAL)
    del table.logs[T1]
    table.append(1)
    with pytest.raises(DataLossError, match="t-1 no longer exist"):
        plan.next(end, EVERYTHING)
    end, read = step(tolerant, end)
    assert read == [(0, 10, 11)]
    assert end.offsets == {T0: 11}


def test_a_deleted_topic_is_a_loss_and_one_that_never_existed_is_a_mistake() -> None:
    table = Table(t=[10])
    plan = plan_on(table)
    table.missing = ("t",)
    with pytest.raises(MissingTopicsError):
        plan.next(INITIAL, EVERYTHING)
    table.missing = ()
    end, _ = step(plan, INITIAL)
    table.missing = ("t",)
    with pytest.raises(DataLossError, match=r"no longer exist: \['t'\]"):
        plan.next(end, EVERYTHING)


def test_a_recreated_topic_is_detected_by_its_id_even_if_it_is_longer() -> None:
    table = Table(t=[10, 20])
    plan, tolerant = plan_on(table), plan_on(table, failOnDataLoss="false")
    end, _ = step(plan, INITIAL)
    table.topic_ids["t"] = b"another id......"
    table.append(100)
    with pytest.raises(DataLossError, match="topic 't' was deleted and created again"):
        plan.next(end, EVERYTHING)
    end, read = step(tolerant, end)
    assert read == [(0, 0, 110), (1, 0, 120)]
    assert step(tolerant, end) == (end, [])


def test_a_recreated_topic_is_not_reported_as_truncated() -> None:
    table = Table(t=[10])
    plan = plan_on(table)
    end, _ = step(plan, INITIAL)
    table.topic_ids["t"] = b"another id......"
    table.logs[T0] = Log(end=3)
    with pytest.raises(DataLossError) as caught:
        plan.next(end, EVERYTHING)
    assert "truncated" not in str(caught.value)


def test_a_leader_without_the_epoch_is_trusted() -> None:
    table = Table(t=[10])
    plan = plan_on(table)
    end, _ = step(plan, INITIAL)
    table.logs[T0] = Log(end=12, epoch=5)
    assert step(plan, end)[1] == [(0, 10, 12)]
    assert table.asked_for_epochs == 1


def test_brokers_without_topic_ids_are_trusted() -> None:
    table = Table(t=[10])
    table.topic_ids["t"] = bytes(16)
    plan = plan_on(table)
    end, _ = step(plan, INITIAL)
    table.topic_ids["t"] = b"an id at last..."
    assert step(plan, end) == (end, [])


def test_a_log_shorter_than_the_position_is_a_loss() -> None:
    table = Table(t=[10, 20])
    plan, tolerant = plan_on(table), plan_on(table, failOnDataLoss="false")
    end, _ = step(plan, INITIAL)
    table.logs[T1].end = 15
    with pytest.raises(DataLossError, match="t-1 was truncated to 15, the query had read to 20"):
        plan.next(end, EVERYTHING)
    end, read = step(tolerant, end)
    assert read == []
    assert end.offsets == {T0: 10, T1: 15}
    table.append(1)
    assert step(tolerant, end)[1] == [(0, 10, 11), (1, 15, 16)]


def test_a_truncated_log_that_has_grown_is_detected_by_leader_epochs() -> None:
    table = Table(t=[10, 20])
    plan, tolerant = plan_on(table), plan_on(table, failOnDataLoss="false")
    end, _ = step(plan, INITIAL)
    table.logs[T1] = Log(end=30, epoch=2, epoch_ends=((0, 16), (2, 30)))
    with pytest.raises(DataLossError, match="t-1 was truncated to 16, the query had read to 20"):
        plan.next(end, EVERYTHING)
    end, read = step(tolerant, end)
    assert read == [(1, 16, 30)]
    assert step(tolerant, end) == (end, [])


def test_a_new_leader_with_all_records_is_no_loss_and_is_asked_once() -> None:
    table = Table(t=[10, 20])
    plan = plan_on(table)
    end, _ = step(plan, INITIAL)
    table.logs[T1] = Log(end=30, epoch=1, epoch_ends=((0, 20), (1, 30)))
    end, read = step(plan, end)
    assert read == [(1, 20, 30)]
    table.append(1)
    end, read = step(plan, end)
    assert read == [(0, 10, 11), (1, 30, 31)]
    assert table.asked_for_epochs == 1


def test_all_causes_are_reported_together() -> None:
    table = Table(t=[10, 20])
    plan = plan_on(table)
    end, _ = step(plan, INITIAL)
    del table.logs[T0]
    table.logs[T1].end = 15
    with pytest.raises(DataLossError, match=r"t-0 no longer exist.*; t-1 was truncated to 15"):
        plan.next(end, EVERYTHING)


# --- Spark 4.1 does not pass the start of a batch -------------------------------------------------


def test_without_a_known_start_a_batch_reads_to_the_end() -> None:
    table = Table(t=[10, 20])
    plan = plan_on(table)
    before, _ = step(plan, INITIAL)
    table.append(1)
    table.logs[TopicPartition("t", 2)] = Log(start=2, end=4)
    end = plan.next(None, EVERYTHING)
    assert end is not None
    assert [spans(each) for each in plan.ranges(before, end)] == [
        (0, 10, 11),
        (1, 20, 21),
        (2, 2, 4),
    ]
