"""Deleting offsets and groups: OffsetDelete, DeleteGroups, retention, deleted topics."""

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_groups
from tests.coordinator.group.harness import GROUP, TOPIC, Call, Shell, subscription

DAY_S = 86_400.0
CHECK_S = 600.0


@pytest.fixture
def shell() -> Shell:
    return Shell()


def idle(shell: Shell, members: dict[str, int], seconds: float) -> None:
    """Let time pass while members send heartbeats."""
    for _ in range(round(seconds / 1200)):
        shell.advance(1200)
        for member_id, generation in members.items():
            shell.heartbeat(member_id, generation)


# --- OffsetDelete ---------------------------------------------------------------------------


def test_offsets_of_an_empty_group_are_deleted(shell: Shell) -> None:
    shell.commit_later({(TOPIC, 0): 1, (TOPIC, 1): 2})
    call = shell.delete_offsets((TOPIC, 0), (TOPIC, 7))
    assert call.error is ErrorCode.NONE
    errors = [t.partitions[0].error_code for t in call.response.topics]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert [shell.offset(), shell.offset(partition=1)] == [-1, 2]
    assert shell.restart().offset() == -1


def test_deleting_unknown_offsets_writes_nothing(shell: Shell) -> None:
    shell.commit(1)
    records = len(shell.log)
    assert shell.delete_offsets((TOPIC, 7)).error is ErrorCode.NONE
    assert len(shell.log) == records


def test_offsets_of_an_unknown_group_cannot_be_deleted(shell: Shell) -> None:
    assert shell.delete_offsets((TOPIC, 0)).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_that_a_consumer_reads_are_kept(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    offsets = {(TOPIC, 0): 1, ("other", 0): 2}
    shell.commit_later(offsets, member_id=one, generation=generation)
    call = shell.delete_offsets((TOPIC, 0), ("other", 0))
    errors = [t.partitions[0].error_code for t in call.response.topics]
    assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert [shell.offset(), shell.offset("other")] == [1, -1]


def test_nothing_is_deleted_while_subscriptions_are_unknown(shell: Shell) -> None:
    shell.commit(1)
    shell.join(version=3)
    call = shell.delete_offsets((TOPIC, 0))
    (topic,) = call.response.topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_a_group_of_another_protocol_type_must_be_empty(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1, protocol_type="connect")
    shell.commit(1, member_id=one, generation=generation)
    assert shell.delete_offsets((TOPIC, 0)).error is ErrorCode.NON_EMPTY_GROUP
    shell.leave_v2(one)
    assert shell.delete_offsets((TOPIC, 0)).error is ErrorCode.NONE
    assert shell.offset() == -1


def test_a_deletion_that_cannot_be_written_is_an_error(shell: Shell) -> None:
    shell.commit(1)
    shell.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert shell.delete_offsets((TOPIC, 0)).error is ErrorCode.NOT_COORDINATOR
    assert shell.offset() == 1


def test_a_deletion_is_visible_below_the_high_watermark(shell: Shell) -> None:
    shell.commit(1)
    shell.holds_commits = True
    call = shell.delete_offsets((TOPIC, 0))
    assert not call.is_answered
    assert shell.offset() == 1
    assert shell.shard.offset_fetch(GROUP, None).topics[0].name == TOPIC
    shell.commit_all()
    assert call.error is ErrorCode.NONE
    assert shell.offset() == -1
    assert shell.shard.offset_fetch(GROUP, None).topics == []


# --- DeleteGroups ---------------------------------------------------------------------------


def group_errors(call: Call[delete_groups.Response]) -> dict[str, int]:
    return {result.group_id: result.error_code for result in call.response.results}


def test_only_groups_without_members_can_be_deleted(shell: Shell) -> None:
    shell.stable_group(1, group="busy")
    shell.commit(1, group="idle")
    shell.commit(1, group="other")
    call = shell.delete_groups("busy", "idle", "unknown", "idle")
    assert group_errors(call) == {
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "idle": ErrorCode.NONE,
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    for shard in (shell, shell.restart()):
        assert shard.state("idle") == "Dead"
        assert shard.offset(group="idle") == -1
        assert shard.offset(group="other") == 1
        assert shard.state("busy") == "Stable"


def test_a_deleted_group_starts_over(shell: Shell) -> None:
    _, (one,) = shell.stable_group(1)
    shell.leave_v2(one)
    late = shell.get_id()
    shell.delete_groups(GROUP)
    assert shell.join(late).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.stable_group(1)[0] == 1


def test_nothing_to_delete_is_answered_immediately(shell: Shell) -> None:
    shell.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert group_errors(shell.delete_groups("unknown")) == {"unknown": ErrorCode.GROUP_ID_NOT_FOUND}


def test_a_group_that_cannot_be_deleted_stays(shell: Shell) -> None:
    shell.commit(1)
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    call = shell.delete_groups(GROUP, "unknown")
    assert group_errors(call) == {
        GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert shell.offset() == 1


def test_a_group_with_many_offsets_is_deleted_in_several_batches() -> None:
    shell = Shell(tombstones_per_append_max=10)
    shell.commit_later({(TOPIC, partition): 1 for partition in range(25)})
    shell.holds_commits = True
    call = shell.delete_groups(GROUP)
    assert len(shell.uncommitted) == 3
    assert not call.is_answered
    shell.commit_all()
    assert group_errors(call) == {GROUP: ErrorCode.NONE}
    assert shell.restart().shard.list_groups() == []


# --- retention (KIP-211) --------------------------------------------------------------------


def test_a_simple_groups_offsets_expire_after_their_commit(shell: Shell) -> None:
    shell.commit_later({(TOPIC, 0): 1, (TOPIC, 1): 1})
    shell.advance(DAY_S)
    shell.commit(2)
    shell.advance(6 * DAY_S)
    assert [shell.offset(), shell.offset(partition=1)] == [2, -1]
    assert shell.state() == "Empty"
    shell.advance(DAY_S + CHECK_S)
    assert shell.offset() == -1
    assert shell.state() == "Dead"
    assert shell.restart().shard.list_groups() == []


def test_a_groups_offsets_expire_after_it_became_empty() -> None:
    shell = Shell()
    generation, (one,) = shell.stable_group(1, session_ms=1_800_000)
    shell.commit(1, member_id=one, generation=generation)
    idle(shell, {one: generation}, 8 * DAY_S)
    assert shell.offset() == 1  # in use, however old the commit is
    shell.leave_v2(one)
    shell.advance(7 * DAY_S - CHECK_S)
    assert shell.offset() == 1
    shell = shell.restart()  # the time it became empty is stored
    shell.advance(2 * CHECK_S)
    assert shell.offset() == -1
    assert shell.state() == "Dead"


def test_an_unsubscribed_topic_of_a_stable_group_expires_by_its_commit(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1, session_ms=1_800_000)
    offsets = {(TOPIC, 0): 1, ("other", 0): 1}
    shell.commit_later(offsets, member_id=one, generation=generation)
    idle(shell, {one: generation}, 7 * DAY_S + 1200)
    assert [shell.offset(), shell.offset("other")] == [1, -1]
    assert shell.state() == "Stable"


@pytest.mark.parametrize("metadata", [b"", b"\0\1\0\0\0\5short"])
def test_nothing_expires_while_a_subscription_cannot_be_read(metadata: bytes) -> None:
    shell = Shell()
    generation, (one,) = shell.stable_group(
        1, session_ms=1_800_000, protocols=[("range", metadata)]
    )
    shell.commit(1, member_id=one, generation=generation)
    idle(shell, {one: generation}, 8 * DAY_S)
    assert shell.offset() == 1


def test_nothing_expires_in_a_group_of_another_protocol_type() -> None:
    shell = Shell()
    generation, (one,) = shell.stable_group(1, session_ms=1_800_000, protocol_type="connect")
    shell.commit(1, member_id=one, generation=generation)
    idle(shell, {one: generation}, 8 * DAY_S)
    assert shell.offset() == 1


def test_a_client_before_v5_sets_the_retention_time(shell: Shell) -> None:
    shell.commit(1, version=4, retention_ms=3_600_000)
    shell = shell.restart()
    shell.advance(3600 - CHECK_S)
    assert shell.offset() == 1
    shell.advance(CHECK_S)
    assert shell.offset() == -1


@pytest.mark.parametrize(("retention_ms", "left"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_absurd_retention_times_are_harmless(shell: Shell, retention_ms: int, left: int) -> None:
    assert shell.commit(1, version=4, retention_ms=retention_ms) is ErrorCode.NONE
    shell.advance(8 * DAY_S)
    assert shell.offset() == left


def test_a_group_with_a_pending_member_is_kept() -> None:
    shell = Shell(offsets_retention_check_interval_ms=1_000)
    member_id = shell.get_id()
    shell.advance(9)
    assert not shell.join(member_id).is_answered
    shell.leave_v2(member_id)
    shell.advance(5)
    assert shell.state() == "Dead"  # nothing left of it


def test_an_empty_group_without_offsets_is_deleted(shell: Shell) -> None:
    _, (one,) = shell.stable_group(1)
    shell.leave_v2(one)
    assert shell.restart().state() == "Empty"
    shell.advance(CHECK_S)
    assert shell.state() == shell.restart().state() == "Dead"


# --- deleted topics -------------------------------------------------------------------------


def test_offsets_of_deleted_topics_are_deleted_in_every_group(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1, group="members")
    offsets = {(TOPIC, 0): 1, ("other", 0): 2}
    shell.commit_later(offsets, group="members", member_id=one, generation=generation)
    shell.commit_later(offsets, group="simple")
    shell.carry_out(shell.shard.on_topics_deleted({TOPIC}, shell.now))
    for shard in (shell, shell.restart()):
        assert [shard.offset(group=group) for group in ("members", "simple")] == [-1, -1]
        assert [shard.offset("other", group=group) for group in ("members", "simple")] == [2, 2]


def test_topics_without_offsets_write_nothing(shell: Shell) -> None:
    shell.commit(1)
    assert shell.shard.on_topics_deleted({"other"}, shell.now) == []


def test_a_consumer_may_read_another_topic_after_a_rebalance(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    shell.commit(1, member_id=one, generation=generation)
    shell.join(one, protocols=[("range", subscription("other"))])
    call = shell.delete_offsets((TOPIC, 0))
    assert call.response.topics[0].partitions[0].error_code == ErrorCode.NONE
