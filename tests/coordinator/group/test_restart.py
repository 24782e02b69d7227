"""The life of a shard: loading the log, serving, losing writes, resigning."""

import logging

import pytest

from minikafka.coordinator.group import (
    Append,
    Ask,
    Effect,
    GroupConfig,
    GroupRequest,
    GroupShard,
    Now,
    Reply,
)
from minikafka.coordinator.group.classic.records import (
    GroupEntry,
    GroupMetadataMember,
    GroupMetadataValue,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    delete_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    sync_group,
)
from tests.coordinator.group.harness import (
    GROUP,
    SESSION_MS,
    TOPIC,
    Shell,
    commit_error,
    member,
)

NOW = Now(0.0, 0)
REQUESTS: list[GroupRequest] = [
    join_group.Request(
        group_id="g", session_timeout_ms=1, member_id="m", protocol_type="", protocols=[]
    ),
    sync_group.Request(group_id="g", generation_id=1, member_id="m", assignments=[]),
    heartbeat.Request(group_id="g", generation_id=1, member_id="m"),
    leave_group.Request(group_id="g", member_id="m"),
    offset_commit.Request(
        group_id="g",
        member_id="",
        topics=[
            offset_commit.RequestTopic(
                topic_id=bytes(range(16)),
                name="t",
                partitions=[
                    offset_commit.RequestPartition(
                        partition_index=3, committed_offset=1, committed_metadata=None
                    )
                ],
            )
        ],
    ),
    offset_delete.Request(group_id="g", topics=[]),
    delete_groups.Request(groups_names=["g"]),
]


def error_of(effects: list[Effect]) -> int:
    (reply,) = effects
    assert isinstance(reply, Reply)
    assert reply.token == "token"
    match reply.response:
        case offset_commit.Response(topics=[topic]):
            assert (topic.topic_id, topic.name) == (bytes(range(16)), "t")
            assert topic.partitions[0].partition_index == 3
            return topic.partitions[0].error_code
        case delete_groups.Response(results=[result]):
            assert result.group_id == "g"
            return result.error_code
        case join_group.Response() as response:
            assert response.member_id == "m"
            return response.error_code
        case (
            sync_group.Response()
            | heartbeat.Response()
            | leave_group.Response()
            | offset_delete.Response() as response
        ):
            return response.error_code
        case other:
            raise AssertionError(f"an answer to no request: {other}")


# --- loading --------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_nothing_is_decided_while_the_log_is_loaded(request_: GroupRequest) -> None:
    shard = GroupShard(GroupConfig(), new_id=lambda: "id")
    assert shard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    error = error_of(shard.handle(Ask(request_, 2, "app", "/", "token"), NOW))
    # A member that sends heartbeats gets no error; its session begins at the end of loading.
    is_heartbeat = isinstance(request_, heartbeat.Request)
    assert error == (ErrorCode.NONE if is_heartbeat else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_nothing_is_shown_while_the_log_is_loaded() -> None:
    shard = GroupShard(GroupConfig(), new_id=lambda: "id")
    found = shard.offset_fetch("g", {"t": [0]})
    assert (found.error_code, found.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert shard.describe("g", 6).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert shard.on_topics_deleted(["t"], NOW) == []
    assert shard.deadline() is None


def test_a_stable_group_continues_after_a_restart() -> None:
    shell = Shell()
    generation, (leader, follower) = shell.stable_group()
    shell.commit(42, member_id=leader, generation=generation)
    shell = shell.restart()
    assert shell.shard.error is ErrorCode.NONE
    assert shell.state() == "Stable"
    assert shell.heartbeat(leader, generation) is ErrorCode.NONE
    assert shell.sync(follower, generation).response.assignment == follower.encode()
    assert shell.offset() == 42
    assert shell.commit(43, member_id=leader, generation=generation) is ErrorCode.NONE
    # The leader was stored, too.
    assert shell.join(follower).response.leader == leader


def test_a_static_member_is_known_by_instance_id_after_a_restart() -> None:
    shell = Shell()
    call = shell.join(instance="alpha")
    shell.advance(3)
    shell.sync_all([call.response.member_id], 1)
    shell = shell.restart()
    assert shell.join(instance="alpha").response.generation_id == 1


def test_restored_members_must_send_heartbeats() -> None:
    shell = Shell()
    generation, ids = shell.stable_group()
    shell = shell.restart()
    shell.advance(SESSION_MS / 1000 - 1)
    assert shell.heartbeat(ids[0], generation) is ErrorCode.NONE
    shell.advance(1)
    assert shell.heartbeat(ids[0], generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.heartbeat(ids[1], generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_number_is_never_reused_after_a_restart() -> None:
    shell = Shell()
    generation, (leader, follower) = shell.stable_group()
    calls = [shell.join(leader), shell.join(follower)]
    told = calls[0].response.generation_id
    assert told == generation + 1
    shell = shell.restart()  # before the leader's assignment came
    assert shell.sync(leader, told, {}).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.stable_group()[0] == told + 1


def test_joins_are_answered_only_when_the_generation_is_stored() -> None:
    shell = Shell()
    shell.holds_commits = True
    call = shell.join(version=3)
    shell.advance(3)
    assert not call.is_answered
    late = shell.join(version=3)
    shell.get_id()
    assert shell.state() == "PreparingRebalance"
    shell.commit_all()
    # A member that joined in between is in the same generation; a pending id does not delay it.
    assert call.response.generation_id == late.response.generation_id == 1
    assert len(call.response.members) == 2


def test_all_members_leave_while_the_generation_is_stored() -> None:
    shell = Shell()
    shell.holds_commits = True
    call = shell.join(version=3)
    shell.advance(3)
    shell.leave(member(shell.shard.describe(GROUP, 5).members[0].member_id))
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID
    shell.commit_all()
    assert shell.state() == "Empty"
    shell.holds_commits = False
    assert shell.stable_group(1)[0] == 2


def test_unknown_and_damaged_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    shell = Shell()
    shell.commit(42)
    with caplog.at_level(logging.INFO):
        shell = Shell(log=[(b"\0\x63new", b"kind"), (b"\0", b""), *shell.log, (b"\0\2", None)])
    assert shell.offset() == 42
    assert [record.levelname for record in caplog.records[:3]] == ["INFO", "ERROR", "ERROR"]
    assert "unknown version 99" in caplog.text


def test_records_cannot_be_replayed_after_loading() -> None:
    shell = Shell()
    with pytest.raises(RuntimeError, match="replay is only for loading"):
        shell.shard.replay(b"", b"")


def stored_member(member_id: str, instance: str | None) -> GroupMetadataMember:
    return GroupMetadataMember(
        member_id=member_id,
        group_instance_id=instance,
        client_id="c",
        client_host="/",
        session_timeout_ms=SESSION_MS,
        subscription=b"",
        assignment=b"",
    )


def test_an_inconsistent_group_can_be_loaded_and_recovers() -> None:
    """The same member twice, two with one instance id, a leader that is not a member."""
    members = [stored_member("a", "x"), stored_member("a", "x"), stored_member("b", "x")]
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader="z", members=members
    )
    shell = Shell(log=[GroupEntry(GROUP, value).encode()])
    assert {m.member_id for m in shell.shard.describe(GROUP, 5).members} == {"a", "b"}
    assert shell.heartbeat("a", 3) is ErrorCode.NONE
    shell.leave(member("a"), member("b"))
    assert shell.state() == "Empty"


def test_an_old_record_without_a_timestamp_expires_by_the_commits() -> None:
    shell = Shell(offsets_retention_ms=10_000, offsets_retention_check_interval_ms=1_000)
    shell.commit(42)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None, members=[]
    )
    shell.log.append(GroupEntry(GROUP, value).encode())
    shell.advance(5)
    shell = shell.restart()
    shell.advance(4)
    assert shell.offset() == 42
    shell.advance(1)
    assert shell.offset() == -1


# --- writes that are lost -------------------------------------------------------------------


def test_a_generation_that_cannot_be_stored_is_not_begun() -> None:
    shell = Shell()
    generation, (leader, follower) = shell.stable_group()
    waiting = shell.join(leader)
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    last = shell.join(follower)
    assert waiting.error is last.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.response.member_id == leader
    assert shell.state() == "PreparingRebalance"
    shell.append_error = ErrorCode.NONE
    calls = [shell.join(leader), shell.join(follower)]
    assert {call.response.generation_id for call in calls} == {generation + 1}


def test_after_a_failed_start_members_that_do_not_come_back_are_dropped() -> None:
    shell = Shell()
    call = shell.join(version=3)
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    shell.advance(3)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    shell.append_error = ErrorCode.NONE
    shell.advance(SESSION_MS / 1000)
    assert shell.state() == "Empty"


def test_a_member_that_comes_back_after_a_failed_start_may_wait_longer_than_its_session() -> None:
    shell = Shell()
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    call = shell.join(version=3, session_ms=6_000)
    other = shell.join(version=3, session_ms=1_000_000)
    shell.advance(6)
    assert call.error is other.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    shell.append_error = ErrorCode.NONE
    again = shell.join(call.response.member_id, version=3, session_ms=6_000)
    shell.advance(30)
    assert not again.is_answered
    shell.join(other.response.member_id, version=3)
    assert again.error is ErrorCode.NONE


def test_a_failed_start_keeps_a_static_member_that_did_not_join() -> None:
    shell = Shell()
    calls = [shell.join(instance=name, session_ms=1_000_000) for name in ("alpha", "beta")]
    shell.advance(6)
    ids = [call.response.member_id for call in calls]
    shell.sync_all(ids, 1)
    rejoined = shell.join(ids[0], instance="alpha", session_ms=1_000_000)
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    shell.advance(60)
    assert rejoined.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    shell.append_error = ErrorCode.NONE
    calls = [
        shell.join(member_id, instance=name, session_ms=1_000_000)
        for member_id, name in zip(ids, ("alpha", "beta"), strict=True)
    ]
    assert {call.response.generation_id for call in calls} == {2}


def test_a_group_becomes_empty_even_if_that_cannot_be_stored() -> None:
    shell = Shell(offsets_retention_ms=20_000, offsets_retention_check_interval_ms=1_000)
    generation, (one,) = shell.stable_group(1)
    for _ in range(5):
        shell.advance(8)
        shell.commit(42, member_id=one, generation=generation)
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    shell.leave_v2(one)
    assert shell.state() == "Empty"
    shell.append_error = ErrorCode.NONE
    shell.advance(19)
    assert shell.offset() == 42  # kept since it became empty, not since it became stable
    shell.advance(1)
    assert shell.offset() == -1


def test_a_generation_whose_write_timed_out_is_not_reused() -> None:
    shell = Shell()
    shell.holds_commits = True
    call = shell.join(version=3)
    shell.advance(3)
    shell.advance(5)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    shell.holds_commits = False
    shell.commit_all()
    again = shell.join(call.response.member_id, version=3)
    assert again.response.generation_id == 2


def test_all_joined_members_may_leave_before_the_generation_is_stored() -> None:
    shell = Shell()
    static = [shell.join(instance=name) for name in ("alpha", "beta")]
    shell.advance(6)
    ids = [call.response.member_id for call in static]
    shell.sync_all(ids, 1)
    newcomer = shell.join(version=3, rebalance_ms=5_000)
    dynamic = shell.shard.describe(GROUP, 5).members[-1].member_id
    shell.holds_commits = True
    for _ in range(12):
        shell.advance(5)
        shell.heartbeat(ids[0], 1)
        shell.heartbeat(ids[1], 1)
    assert len(shell.uncommitted) == 1
    shell.leave(member(dynamic))
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID
    shell.holds_commits = False
    shell.commit_all()
    assert shell.state() == "PreparingRebalance"
    calls = [shell.join(ids[0], instance="alpha"), shell.join(ids[1], instance="beta")]
    assert {call.response.generation_id for call in calls} == {3}


def test_a_late_append_failure_answers_waiting_requests() -> None:
    shell = Shell()
    shell.holds_commits = True
    call = shell.commit_later({(TOPIC, 0): 1})
    (write_id,) = shell.uncommitted
    shell.carry_out(
        shell.shard.append_failed(write_id, ErrorCode.NOT_LEADER_OR_FOLLOWER, shell.now)
    )
    assert commit_error(call) is ErrorCode.NOT_COORDINATOR
    assert shell.offset() == -1
    shell.commit_all()  # it was in the log, and survived
    assert shell.offset() == 1


def commit_ask(token: object) -> Ask:
    return Ask(REQUESTS[4], 9, "app", "/", token)


def test_decisions_wait_for_earlier_writes() -> None:
    shell = Shell()
    effects = shell.shard.handle(commit_ask("token"), shell.now)
    with pytest.raises(RuntimeError, match="carry out all effects"):
        shell.shard.handle(commit_ask("token"), shell.now)
    with pytest.raises(RuntimeError, match=r"Append effects \[1\]"):
        shell.shard.expire(shell.now)
    (append,) = effects
    assert isinstance(append, Append)
    assert shell.shard.committed(append.write_id, shell.now) != []  # includes appended
    assert shell.shard.expire(shell.now) == []


def test_reports_on_writes_that_are_not_pending_change_nothing() -> None:
    shell = Shell()
    shell.shard.appended(77)
    assert shell.shard.committed(77, shell.now) == []
    assert shell.shard.append_failed(77, ErrorCode.KAFKA_STORAGE_ERROR, shell.now) == []


# --- resigning ------------------------------------------------------------------------------


def test_waiting_requests_are_sent_to_the_new_coordinator() -> None:
    shell = Shell()
    calls = [shell.join(version=3, group="syncing") for _ in range(2)]
    shell.advance(6)
    in_sync = shell.sync(calls[1].response.member_id, 1, group="syncing")
    shell.holds_commits = True
    in_commit = shell.commit_later({(TOPIC, 0): 1})
    in_delete = shell.delete_groups(GROUP)
    in_join = shell.join(version=3, group="joining")
    closing = shell.join(version=3, group="closing")
    shell.advance(2)
    shell.join(version=3, group="joining")
    shell.advance(1)
    leading = shell.sync(calls[0].response.member_id, 1, {}, group="syncing")
    shell.carry_out(shell.shard.resigned())
    moved = ErrorCode.NOT_COORDINATOR
    assert in_sync.error is leading.error is in_join.error is closing.error is moved
    assert commit_error(in_commit) is moved
    assert in_delete.response.results[0].error_code == moved
    assert shell.shard.deadline() is None
    assert shell.shard.list_groups() == []
    shell.commit_all()
    assert shell.shard.expire(shell.now) == []


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_later_requests_are_sent_to_the_new_coordinator(request_: GroupRequest) -> None:
    shell = Shell()
    shell.carry_out(shell.shard.resigned())
    assert shell.shard.error is ErrorCode.NOT_COORDINATOR
    effects = shell.shard.handle(Ask(request_, 2, "app", "/", "token"), shell.now)
    assert error_of(effects) == ErrorCode.NOT_COORDINATOR
    assert shell.shard.offset_fetch("g", None).error_code == ErrorCode.NOT_COORDINATOR
