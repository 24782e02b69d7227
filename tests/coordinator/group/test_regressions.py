"""Faults that Apache Kafka had in its group coordinator, by the numbers of its tickets."""

from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.harness import GROUP, TOPIC, Shell, member


def test_kafka_5600_the_last_record_is_loaded() -> None:
    """An offset or a group that was deleted and stored again: the last record counts.

    Kafka once collected removals over a whole load and so lost what was written after them.
    """
    shell = Shell()
    shell.commit(1)
    shell.delete_offsets((TOPIC, 0))
    shell.commit(2)
    shell.delete_groups(GROUP)
    generation, (one,) = shell.stable_group(1)
    shell.commit(3, member_id=one, generation=generation)
    shell.leave(member(one))
    generation, (two,) = shell.stable_group(1)
    shell = shell.restart()
    assert shell.offset() == 3
    assert shell.heartbeat(two, generation) is ErrorCode.NONE
    assert shell.heartbeat(one, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_kafka_9065_an_empty_log_can_be_loaded() -> None:
    """All records were compacted away, or are of unknown kinds: loading still ends.

    Kafka waited for a record at the end of the log that no longer existed.
    """
    assert Shell().shard.error is ErrorCode.NONE
    shell = Shell(log=[(b"\0\3other", None)])
    assert shell.shard.list_groups() == []
    # After compaction a tombstone may be all that is left of a group or an offset.
    shell = Shell()
    shell.commit(1)
    shell.delete_groups(GROUP)
    tombstones = [(key, value) for key, value in shell.log if value is None]
    assert len(tombstones) == 2
    shell = Shell(log=tombstones)
    assert shell.shard.list_groups() == []
    assert shell.offset() == -1


def test_kafka_9823_an_answer_of_the_previous_generation_does_not_affect_this_one() -> None:
    """Requests in flight while the member joins again are checked against their own generation.

    Kafka's consumer took errors of late answers for its new generation; what the coordinator can
    do is to name them: ILLEGAL_GENERATION for the generation that is over, never UNKNOWN_MEMBER_ID.
    """
    shell = Shell()
    generation, ids = shell.stable_group(2)
    calls = [shell.join(member_id) for member_id in ids]
    assert {call.response.generation_id for call in calls} == {generation + 1}
    for member_id in ids:
        late = ErrorCode.ILLEGAL_GENERATION
        assert shell.heartbeat(member_id, generation) is late
        assert shell.sync(member_id, generation, {}).error is late
        assert shell.commit(9, member_id=member_id, generation=generation) is late
    shell.sync_all(ids, generation + 1)
    for member_id in ids:
        assert shell.heartbeat(member_id, generation + 1) is ErrorCode.NONE
        assert shell.heartbeat(member_id, generation) is ErrorCode.ILLEGAL_GENERATION
    assert shell.offset() == -1


def test_kafka_13636_a_rebalance_does_not_expire_what_its_members_committed() -> None:
    """A group that has not committed for a week, and is in a rebalance during the clean-up.

    Kafka took a group without a selected protocol for one that reads no topic.
    """
    shell = Shell(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=1_000)
    generation, (one, two) = shell.stable_group(2, session_ms=1_000_000, rebalance_ms=100_000)
    shell.commit(1, member_id=one, generation=generation)
    shell.advance(100)
    assert shell.offset() == 1
    waiting = shell.join(one, session_ms=1_000_000)
    shell.advance(50)
    assert shell.state() == "PreparingRebalance"
    assert shell.offset() == 1
    shell.join(two, session_ms=1_000_000)
    assert waiting.response.generation_id == generation + 1
    shell.advance(50)
    assert shell.state() == "CompletingRebalance"
    assert shell.offset() == 1
    # Not even when the coordinator dies now, and the members have to start over.
    shell = shell.restart()
    shell.stable_group(1)
    assert shell.offset() == 1
