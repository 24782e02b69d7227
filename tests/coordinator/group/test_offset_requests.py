"""OffsetCommit and OffsetFetch: which commits are accepted, and what is read back."""

import pytest

from minikafka.coordinator.group import single_group_response
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_fetch
from tests.coordinator.group.harness import GROUP, SESSION_MS, TOPIC, Shell, commit_error


@pytest.fixture
def shell() -> Shell:
    return Shell()


# --- which commits are accepted -------------------------------------------------------------


def test_a_member_of_the_current_generation_commits(shell: Shell) -> None:
    generation, (one, _) = shell.stable_group()
    assert shell.commit(42, member_id=one, generation=generation) is ErrorCode.NONE
    assert shell.offset() == 42


def test_members_of_other_generations_and_unknown_ones_do_not(shell: Shell) -> None:
    generation, (one, _) = shell.stable_group()
    old = shell.commit(42, member_id=one, generation=generation - 1)
    stranger = shell.commit(42, member_id="m", generation=generation)
    nameless = shell.commit(42, member_id="", generation=generation)
    simple = shell.commit(42)
    assert old is ErrorCode.ILLEGAL_GENERATION
    assert stranger is nameless is simple is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.offset() == -1


def test_the_old_generation_may_commit_while_the_next_is_prepared(shell: Shell) -> None:
    generation, (one, _) = shell.stable_group()
    shell.join(version=3)
    assert shell.state() == "PreparingRebalance"
    assert shell.commit(42, member_id=one, generation=generation) is ErrorCode.NONE


def test_commits_are_refused_before_the_assignment(shell: Shell) -> None:
    call = shell.join(version=3)
    shell.advance(3)
    assert shell.state() == "CompletingRebalance"
    member_id = call.response.member_id
    error = shell.commit(42, member_id=member_id, generation=1)
    assert error is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.commit(42, member_id=member_id, generation=0) is ErrorCode.ILLEGAL_GENERATION


def test_a_joining_member_is_not_in_the_ending_generation(shell: Shell) -> None:
    generation, _ = shell.stable_group()
    newcomer = shell.get_id()
    waiting = shell.join(newcomer)
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert shell.commit(42, member_id=newcomer, generation=generation) is illegal
    assert shell.heartbeat(newcomer, generation) is illegal
    assert not waiting.is_answered


def test_a_simple_consumer_commits_without_a_group(shell: Shell) -> None:
    assert shell.commit(42) is ErrorCode.NONE
    assert shell.offset() == 42
    assert shell.state() == "Empty"
    assert shell.commit(43, member_id="anything") is ErrorCode.NONE


def test_offsets_may_be_stored_under_an_empty_group_id(shell: Shell) -> None:
    assert shell.commit(42, group="") is ErrorCode.NONE
    assert shell.offset(group="") == 42


def test_an_administrator_resets_the_offsets_of_an_empty_group_only(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    shell.commit(42, member_id=one, generation=generation)
    assert shell.commit(7) is ErrorCode.UNKNOWN_MEMBER_ID
    shell.leave_v2(one)
    assert shell.commit(7) is ErrorCode.NONE
    assert shell.commit(8, member_id=one, generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.offset() == 7


def test_a_generation_of_an_unknown_group_is_refused(shell: Shell) -> None:
    error = shell.commit(1, member_id="m", generation=1, version=8)
    assert error is ErrorCode.ILLEGAL_GENERATION
    error = shell.commit(1, member_id="m", generation=1, version=9)
    assert error is ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.state() == "Dead"


def test_a_commit_keeps_the_session_alive(shell: Shell) -> None:
    generation, (one, two) = shell.stable_group(2)
    for offset in range(5):
        shell.advance(SESSION_MS / 1000 - 1)
        shell.heartbeat(two, generation)
        assert shell.commit(offset, member_id=one, generation=generation) is ErrorCode.NONE


# --- what is stored -------------------------------------------------------------------------


def test_everything_a_client_commits_comes_back(shell: Shell) -> None:
    shell.commit(42, metadata="note")
    found = shell.shard.offset_fetch(GROUP, {TOPIC: [0]}).topics[0].partitions[0]
    assert (found.committed_offset, found.committed_leader_epoch) == (42, 4)
    assert (found.metadata, found.error_code) == ("note", ErrorCode.NONE)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 8, ErrorCode.NONE),
        ("é" * 8, ErrorCode.NONE),
        ("x" * 9, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\N{PARTY POPPER}" * 4, ErrorCode.NONE),
        ("\N{PARTY POPPER}" * 5, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_is_limited_in_utf_16_units(metadata: str, error: ErrorCode) -> None:
    shell = Shell(offset_metadata_size_bytes_max=8)
    assert shell.commit(42, metadata=metadata) is error
    assert shell.offset() == (42 if error is ErrorCode.NONE else -1)


def test_large_metadata_fails_only_its_own_partition() -> None:
    shell = Shell(offset_metadata_size_bytes_max=1)
    call = shell.commit_later({(TOPIC, 0): 1, (TOPIC, 1): 2}, metadata="ok")
    errors = [topic.partitions[0].error_code for topic in call.response.topics]
    assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE] * 2


def test_a_commit_is_answered_when_it_is_below_the_high_watermark(shell: Shell) -> None:
    shell.commit(1)
    shell.holds_commits = True
    call = shell.commit_later({(TOPIC, 0): 2, (TOPIC, 1): 5})
    assert not call.is_answered
    assert shell.offset() == 1  # could still be lost with its leader
    assert shell.offset(partition=1) == -1
    shell.commit_all()
    assert call.response.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert shell.offset() == 2
    assert shell.offset(partition=1) == 5


def test_a_commit_that_times_out_may_still_succeed(shell: Shell) -> None:
    shell.holds_commits = True
    call = shell.commit_later({(TOPIC, 0): 2})
    shell.advance(5)
    assert commit_error(call) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.offset() == -1
    shell.commit_all()
    assert shell.offset() == 2


@pytest.mark.parametrize(
    ("of_log", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_commit_that_cannot_be_written_is_an_error(
    shell: Shell, of_log: ErrorCode, told: ErrorCode
) -> None:
    shell.commit(1)
    shell.append_error = of_log
    assert shell.commit(2) is told
    assert shell.offset() == 1


# --- OffsetFetch ----------------------------------------------------------------------------


def test_a_group_that_does_not_exist_has_no_offsets_and_no_error(shell: Shell) -> None:
    found = shell.shard.offset_fetch("nobody", {TOPIC: [0, 3]}, member_id="m", member_epoch=3)
    assert found.error_code == ErrorCode.NONE
    partitions = found.topics[0].partitions
    assert [(p.partition_index, p.committed_offset) for p in partitions] == [(0, -1), (3, -1)]
    assert {(p.metadata, p.committed_leader_epoch) for p in partitions} == {("", -1)}
    assert shell.shard.offset_fetch("nobody", None).topics == []


def test_all_offsets_of_a_group(shell: Shell) -> None:
    shell.commit_later({(TOPIC, 0): 1, (TOPIC, 2): 3, ("other", 1): 5})
    shell.holds_commits = True
    shell.commit_later({(TOPIC, 0): 2, ("third", 0): 9})
    found = shell.shard.offset_fetch(GROUP, None, require_stable=True)
    offsets = {
        (t.name, p.partition_index): p.committed_offset for t in found.topics for p in t.partitions
    }
    assert offsets == {(TOPIC, 0): 1, (TOPIC, 2): 3, ("other", 1): 5}


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_in_the_layout_of_older_versions(shell: Shell, version: int) -> None:
    shell.commit(42, metadata="note")
    response = single_group_response(shell.shard.offset_fetch(GROUP, {TOPIC: [0]}))
    decoded = offset_fetch.Response.decode(version, response.encode_to_bytes(version))
    partition = decoded.topics[0].partitions[0]
    assert decoded.topics[0].name == TOPIC
    assert (partition.committed_offset, partition.metadata) == (42, "note")
    assert partition.committed_leader_epoch == (4 if version >= 5 else -1)
