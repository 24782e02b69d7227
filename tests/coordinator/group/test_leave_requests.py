"""LeaveGroup, by members and by administrators."""

import pytest

from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.harness import GROUP, SESSION_MS, Shell, member


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_an_empty_group_id_is_invalid(shell: Shell) -> None:
    assert shell.leave(member("m"), group="").error_code == ErrorCode.INVALID_GROUP_ID


def test_leaving_an_unknown_group_is_an_error(shell: Shell) -> None:
    assert shell.leave_v2("m") is ErrorCode.UNKNOWN_MEMBER_ID
    response = shell.leave(member("m", "alpha"))
    assert response.error_code == ErrorCode.NONE
    assert response.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert response.members[0].group_instance_id == "alpha"


def test_one_member_leaves_and_the_others_rebalance(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group(2)
    assert shell.leave_v2(leader) is ErrorCode.NONE
    assert shell.heartbeat(follower, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.join(follower).response.leader == follower


def test_the_last_member_leaves_an_empty_group_of_the_next_generation(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    shell.leave_v2(one)
    assert shell.state() == "Empty"
    assert shell.stable_group(1)[0] == generation + 2


def test_a_group_is_empty_as_soon_as_its_last_member_has_left(shell: Shell) -> None:
    """After the last consumer stops, the group can be deleted immediately."""
    generation, (one,) = shell.stable_group(1)
    shell.holds_commits = True
    shell.leave_v2(one)
    assert shell.state() == "Empty"
    joining = shell.join(shell.get_id())
    assert shell.state() == "PreparingRebalance"
    shell.commit_all()
    shell.advance(3)
    shell.commit_all()
    assert joining.response.generation_id == generation + 2


def test_an_empty_group_can_be_deleted_before_its_emptiness_is_stored(shell: Shell) -> None:
    _, (one,) = shell.stable_group(1)
    shell.holds_commits = True
    shell.leave_v2(one)
    deleting = shell.delete_groups(GROUP)
    shell.commit_all()
    assert deleting.response.results[0].error_code == ErrorCode.NONE
    assert shell.restart().state() == "Dead"


@pytest.mark.parametrize("is_stored", [True, False])
def test_all_members_leave_while_the_generation_is_being_stored(
    shell: Shell, is_stored: bool
) -> None:
    one = shell.get_id()
    shell.holds_commits = True
    shell.join(one)
    shell.advance(3)
    assert shell.leave_v2(one) is ErrorCode.NONE
    assert shell.state() == "PreparingRebalance"
    if is_stored:
        shell.commit_all()
    else:
        shell.advance(5)  # offsets.commit.timeout.ms
    assert shell.state() == "Empty"


def test_a_batch_is_answered_for_each_and_rebalances_once(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group(2)
    response = shell.leave(member(leader), member("stranger"), member(follower), member())
    assert [m.error_code for m in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert shell.state() == "Empty"
    assert shell.stable_group(1)[0] == generation + 2


def test_an_administrator_removes_a_static_member_by_instance_id(shell: Shell) -> None:
    call = shell.join(instance="alpha")
    shell.advance(3)
    shell.sync_all([call.response.member_id], 1)
    response = shell.leave(member(instance="beta"), member(instance="alpha"))
    assert [m.error_code for m in response.members] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert response.members[1].member_id == ""
    assert shell.state() == "Empty"


def test_a_pending_member_can_leave(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    late = shell.get_id()
    rejoined = shell.join(one)
    assert not rejoined.is_answered
    assert shell.leave_v2(late) is ErrorCode.NONE
    assert rejoined.response.generation_id == generation + 1
    assert shell.join(late).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_leaves_does_not_disturb_the_group(shell: Shell) -> None:
    late = shell.get_id()
    assert shell.leave_v2(late) is ErrorCode.NONE
    assert shell.state() == "Empty"
    shell.stable_group(1)
    late = shell.get_id()
    assert shell.leave_v2(late) is ErrorCode.NONE
    assert shell.state() == "Stable"


def test_a_member_that_leaves_while_it_waits_in_join_is_answered(shell: Shell) -> None:
    _, (leader, follower) = shell.stable_group(2)
    waiting = shell.join(leader)
    shell.leave(member(leader))
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.join(follower).response.members[0].member_id == follower


def test_a_member_that_leaves_while_it_waits_in_sync_is_answered(shell: Shell) -> None:
    calls = [shell.join(version=3), shell.join(version=3)]
    shell.advance(6)
    waiting = shell.sync(calls[1].response.member_id, 1)
    shell.leave(member(calls[1].response.member_id))
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_all_leave_before_the_first_generation(shell: Shell) -> None:
    member_id = shell.get_id()
    waiting = shell.join(member_id)
    shell.leave(member(member_id))
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    shell.advance(SESSION_MS / 1000)
    assert shell.state() == "Empty"


def test_the_session_of_a_member_that_left_ends_nothing(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group(2)
    shell.leave(member(follower))
    shell.join(leader)
    shell.sync_all([leader], generation + 1)
    for _ in range(3):
        shell.advance(5)
        assert shell.heartbeat(leader, generation + 1) is ErrorCode.NONE
