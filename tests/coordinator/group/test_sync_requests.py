"""SyncGroup and Heartbeat: the second barrier, and sessions."""

import pytest

from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.harness import GROUP, REBALANCE_MS, Shell, subscription

NEW = [("range", subscription("other"))]


@pytest.fixture
def shell() -> Shell:
    return Shell()


def joined_group(shell: Shell) -> tuple[int, str, str]:
    """A group that awaits its assignment: generation, leader, follower."""
    calls = [shell.join(shell.get_id()) for _ in range(2)]
    shell.advance(6)
    leader, follower = (call.response.member_id for call in calls)
    assert calls[0].response.leader == leader
    return calls[0].response.generation_id, leader, follower


# --- SyncGroup ------------------------------------------------------------------------------


def test_an_empty_group_id_is_invalid(shell: Shell) -> None:
    assert shell.sync("m", 1, group="").error is ErrorCode.INVALID_GROUP_ID


def test_followers_wait_for_the_leaders_assignment(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    waiting = shell.sync(follower, generation)
    assert not waiting.is_answered
    leading = shell.sync(leader, generation, {leader: b"one", follower: b"two"})
    assert leading.response.assignment == b"one"
    assert waiting.response.assignment == b"two"
    assert waiting.response.protocol_type == "consumer"
    assert waiting.response.protocol_name == "range"
    assert shell.state() == "Stable"


def test_a_late_follower_gets_its_assignment_immediately(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    shell.sync(leader, generation, {follower: b"two"})
    assert shell.sync(follower, generation).response.assignment == b"two"
    assert shell.sync(follower, generation).response.assignment == b"two"


def test_a_member_that_the_leader_left_out_gets_an_empty_assignment(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    waiting = shell.sync(follower, generation)
    shell.sync(leader, generation, {"somebody else": b"x"})
    assert waiting.response.assignment == b""


def test_sync_is_refused_to_unknown_members_and_other_generations(shell: Shell) -> None:
    assert shell.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    generation, leader, _ = joined_group(shell)
    assert shell.sync("m", generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.sync(leader, generation - 1).error is ErrorCode.ILLEGAL_GENERATION
    assert shell.sync(leader, generation + 1).error is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "error"),
    [
        ("consumer", "range", ErrorCode.NONE),
        (None, "range", ErrorCode.NONE),
        ("connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_sync_names_the_protocol_that_was_selected_kip_559(
    shell: Shell, protocol_type: str | None, protocol: str, error: ErrorCode
) -> None:
    generation, leader, _ = joined_group(shell)
    call = shell.sync(leader, generation, {}, protocol_type=protocol_type, protocol=protocol)
    assert call.error is error


def test_a_rebalance_answers_members_that_wait_in_sync(shell: Shell) -> None:
    generation, _, follower = joined_group(shell)
    waiting = shell.sync(follower, generation)
    shell.join(version=3)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.sync(follower, generation).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_answered_by_a_rebalance_has_a_session_again(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    shell.sync(follower, generation)
    shell.advance(9)
    shell.heartbeat(leader, generation)
    newcomer = shell.join(version=3)
    shell.advance(9)
    assert shell.heartbeat(follower, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    shell.advance(10)
    assert newcomer.response.generation_id == generation + 1


def test_a_second_sync_of_one_member_replaces_the_first(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    first, second = shell.sync(follower, generation), shell.sync(follower, generation)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    shell.sync(leader, generation, {follower: b"two"})
    assert second.response.assignment == b"two"


def test_the_leaders_first_assignment_counts(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    shell.holds_commits = True
    first = shell.sync(leader, generation, {follower: b"first"})
    second = shell.sync(leader, generation, {follower: b"second"})
    shell.commit_all()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.error is ErrorCode.NONE
    assert shell.sync(follower, generation).response.assignment == b"first"


def test_an_assignment_is_sent_only_when_it_is_stored(shell: Shell) -> None:
    generation, leader, _ = joined_group(shell)
    shell.holds_commits = True
    leading = shell.sync(leader, generation, {})
    assert not leading.is_answered
    assert shell.state() == "CompletingRebalance"
    shell.commit_all()
    assert leading.error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("of_log", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_starts_a_rebalance(
    shell: Shell, of_log: ErrorCode, told: ErrorCode
) -> None:
    generation, leader, follower = joined_group(shell)
    waiting = shell.sync(follower, generation)
    shell.append_error = of_log
    leading = shell.sync(leader, generation, {})
    assert leading.error is waiting.error is told
    shell.append_error = ErrorCode.NONE
    calls = [shell.join(leader), shell.join(follower)]
    assert {call.response.generation_id for call in calls} == {generation + 1}


def test_an_assignment_stored_after_the_next_rebalance_began_is_not_used(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    shell.holds_commits = True
    leading = shell.sync(leader, generation, {leader: b"old"})
    newcomer = shell.join(version=3)
    assert leading.error is ErrorCode.REBALANCE_IN_PROGRESS
    shell.commit_all()
    assert shell.state() == "PreparingRebalance"
    shell.join(leader)
    shell.join(follower)
    shell.commit_all()
    assert newcomer.response.generation_id == generation + 1
    assert shell.state() == "CompletingRebalance"


def test_an_assignment_of_an_older_generation_is_not_used_whenever_it_is_stored(
    shell: Shell,
) -> None:
    generation, leader, follower = joined_group(shell)
    shell.holds_commits = True
    shell.sync(leader, generation, {leader: b"old"})
    calls = [shell.join(leader, protocols=NEW), shell.join(follower, protocols=NEW)]
    assert len(shell.uncommitted) == 2
    shell.uncommitted.reverse()  # the next generation's number is reported first
    shell.commit_one()
    assert calls[0].response.generation_id == generation + 1
    shell.commit_one()
    assert shell.state() == "CompletingRebalance"


def test_members_that_do_not_sync_in_time_are_dropped(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    waiting = shell.sync(follower, generation)
    for _ in range(REBALANCE_MS // 5_000):
        assert not waiting.is_answered
        shell.advance(5)
        shell.heartbeat(leader, generation)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.heartbeat(leader, generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.join(follower).response.leader == follower


def test_a_follower_that_never_syncs_is_dropped_from_a_stable_group(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    shell.sync(leader, generation, {})
    for _ in range(REBALANCE_MS // 5_000):
        assert shell.state() == "Stable"
        shell.advance(5)
        shell.heartbeat(leader, generation)
        shell.heartbeat(follower, generation)
    assert shell.state() == "PreparingRebalance"
    assert shell.heartbeat(follower, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_no_member_is_dropped_once_all_have_synced(shell: Shell) -> None:
    generation, ids = shell.stable_group(3)
    for _ in range(REBALANCE_MS // 5_000 + 2):
        shell.advance(5)
        assert {shell.heartbeat(one, generation) for one in ids} == {ErrorCode.NONE}


# --- Heartbeat ------------------------------------------------------------------------------


def test_a_heartbeat_checks_group_member_and_generation(shell: Shell) -> None:
    assert shell.heartbeat("m", 1, group="") is ErrorCode.INVALID_GROUP_ID
    assert shell.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    generation, (one, _) = shell.stable_group()
    assert shell.heartbeat("m", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.heartbeat(one, generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert shell.heartbeat(one, generation) is ErrorCode.NONE


def test_a_heartbeat_is_accepted_while_waiting_for_the_assignment(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    for _ in range(5):
        shell.advance(5)
        assert shell.heartbeat(leader, generation) is ErrorCode.NONE
        assert shell.heartbeat(follower, generation) is ErrorCode.NONE


def test_a_silent_member_is_dropped_when_its_session_ends(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group()
    shell.advance(9)
    shell.heartbeat(leader, generation)
    assert shell.state() == "Stable"
    shell.advance(1)
    assert shell.heartbeat(leader, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.heartbeat(follower, generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.join(leader).response.generation_id == generation + 1


def test_the_members_of_an_empty_group_are_unknown(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    shell.advance(10)
    assert shell.state() == "Empty"
    assert shell.heartbeat(one, generation + 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_in_sync_keeps_a_session_alive(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    waiting = shell.sync(follower, generation)
    shell.advance(9)
    shell.heartbeat(leader, generation)
    shell.advance(9)
    shell.sync(leader, generation, {follower: b"two"})
    assert waiting.response.assignment == b"two"
    shell.advance(9)
    assert shell.heartbeat(follower, generation) is ErrorCode.NONE


# --- on command ---------------------------------------------------------------------------------


def test_a_session_ends_on_command_though_heartbeats_came(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group()
    assert shell.heartbeat(follower, generation) is ErrorCode.NONE
    shell.carry_out(shell.shard.end_sessions(GROUP, follower, shell.now))
    assert shell.heartbeat(follower, generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.heartbeat(leader, generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_session_that_ends_on_command_may_be_waiting(shell: Shell) -> None:
    generation, leader, follower = joined_group(shell)
    waiting = shell.sync(follower, generation)
    shell.carry_out(shell.shard.end_sessions(GROUP, follower, shell.now))
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.sync(leader, generation).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_session_of_nobody_does_not_end(shell: Shell) -> None:
    _, (leader, _) = shell.stable_group()
    with pytest.raises(ValueError, match=f"no member 'nobody'; it has .*{leader}"):
        shell.shard.end_sessions(GROUP, "nobody", shell.now)
    with pytest.raises(ValueError, match="no member 'nobody'; it has none"):
        shell.shard.end_sessions("other", "nobody", shell.now)


def test_a_group_rebalances_on_command(shell: Shell) -> None:
    generation, members = shell.stable_group()
    shell.carry_out(shell.shard.rebalance(GROUP, "a test", shell.now))
    for member in members:
        assert shell.heartbeat(member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    calls = [shell.join(member) for member in members]
    assert {call.response.generation_id for call in calls} == {generation + 1}


def test_a_group_without_members_does_not_rebalance(shell: Shell) -> None:
    with pytest.raises(ValueError, match="no members that could rebalance"):
        shell.shard.rebalance(GROUP, "a test", shell.now)
