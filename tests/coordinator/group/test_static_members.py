"""Static members (KIP-345), whose instance id survives restarts of the client."""

import pytest

from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.harness import RANGE, Shell, member, subscription


@pytest.fixture
def shell() -> Shell:
    return Shell()


def static_group(shell: Shell, *names: str) -> tuple[int, list[str]]:
    """A stable group of static members; its generation, and their ids in the order of names."""
    calls = [shell.join(instance=name) for name in names]
    while not calls[0].is_answered:
        shell.advance(3)
    ids = [call.response.member_id for call in calls]
    assert calls[0].response.leader == ids[0]
    shell.sync_all(ids, calls[0].response.generation_id)
    return calls[0].response.generation_id, ids


def test_a_static_member_needs_no_second_join(shell: Shell) -> None:
    call = shell.join(instance="alpha")
    shell.advance(3)
    assert call.response.member_id == "alpha-1"
    assert call.response.members[0].group_instance_id == "alpha"


def test_a_restarted_follower_rejoins_without_a_rebalance(shell: Shell) -> None:
    generation, (leader, old) = static_group(shell, "alpha", "beta")
    call = shell.join(instance="beta")
    new = call.response.member_id
    assert new not in (old, "")
    assert (call.response.generation_id, call.response.leader) == (generation, leader)
    assert call.response.members == []
    assert not call.response.skip_assignment
    assert shell.sync(new, generation).response.assignment == old.encode()
    assert shell.heartbeat(leader, generation) is ErrorCode.NONE


def test_a_restarted_leader_skips_the_assignment_kip_814(shell: Shell) -> None:
    generation, (old, follower) = static_group(shell, "alpha", "beta")
    call = shell.join(instance="alpha")
    assert call.response.leader == call.response.member_id != old
    assert call.response.skip_assignment
    assert {m.member_id for m in call.response.members} == {call.response.member_id, follower}
    synced = shell.sync(call.response.member_id, generation)
    assert synced.response.assignment == old.encode()


def test_an_older_restarted_leader_is_answered_as_a_follower(shell: Shell) -> None:
    generation, (old, _) = static_group(shell, "alpha", "beta")
    call = shell.join(instance="alpha", version=8)
    assert call.response.leader == old
    assert call.response.members == []
    assert call.response.generation_id == generation


def test_the_new_id_of_a_static_member_is_stored(shell: Shell) -> None:
    generation, _ = static_group(shell, "alpha", "beta")
    new = shell.join(instance="beta").response.member_id
    shell = shell.restart()
    assert shell.heartbeat(new, generation, instance="beta") is ErrorCode.NONE


def test_the_previous_incarnation_of_a_static_member_is_fenced(shell: Shell) -> None:
    generation, (_, old) = static_group(shell, "alpha", "beta")
    shell.join(instance="beta")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert shell.heartbeat(old, generation, instance="beta") is fenced
    assert shell.sync(old, generation, instance="beta").error is fenced
    assert shell.join(old, instance="beta").error is fenced
    options = {"member_id": old, "generation": generation, "instance": "beta"}
    assert shell.commit(7, **options) is fenced
    assert shell.leave(member(old, "beta")).members[0].error_code == fenced


def test_a_previous_incarnation_that_waits_in_join_is_fenced_immediately(shell: Shell) -> None:
    first = shell.join(instance="alpha")
    second = shell.join(instance="alpha")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    assert first.response.member_id == "alpha-1"
    shell.advance(6)
    assert [m.member_id for m in second.response.members] == ["alpha-2"]


def test_a_previous_incarnation_that_waits_in_sync_is_fenced_and_all_start_over(
    shell: Shell,
) -> None:
    calls = [shell.join(instance=name) for name in ("alpha", "beta")]
    shell.advance(6)
    leader, follower = (call.response.member_id for call in calls)
    waiting = shell.sync(follower, 1)
    restarted = shell.join(instance="beta")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert not restarted.is_answered
    assert shell.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    shell.join(leader, instance="alpha")
    assert restarted.response.generation_id == 2


def test_an_unknown_instance_id_is_an_unknown_member(shell: Shell) -> None:
    generation, (one, _) = static_group(shell, "alpha", "beta")
    assert shell.heartbeat(one, generation, instance="gamma") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_that_changes_the_selected_protocol_starts_a_rebalance(shell: Shell) -> None:
    offered = [("sticky", b""), ("range", b"")]
    call = shell.join(instance="alpha", protocols=offered)
    shell.advance(3)
    assert call.response.protocol_name == "sticky"
    shell.sync_all([call.response.member_id], 1)
    restarted = shell.join(instance="alpha", protocols=offered[::-1])
    assert restarted.response.generation_id == 2
    assert restarted.response.protocol_name == "range"


def test_a_restart_with_another_subscription_alone_does_not(shell: Shell) -> None:
    """As in Kafka: the client itself notices that its assignment does not match."""
    generation, _ = static_group(shell, "alpha", "beta")
    call = shell.join(instance="beta", protocols=[("range", subscription("other"))])
    assert call.response.generation_id == generation


def test_a_rebalance_keeps_a_static_member_that_does_not_come(shell: Shell) -> None:
    generation, (alpha, beta) = static_group(shell, "alpha", "beta")
    shell.shard.describe("readers", 5)
    newcomer = shell.join(instance="gamma", session_ms=100_000, rebalance_ms=5_000)
    assert shell.leave(member(alpha, "alpha")).members[0].error_code == ErrorCode.NONE
    for _ in range(20):
        shell.advance(3)
        shell.heartbeat(beta, generation, instance="beta")
    assert newcomer.response.generation_id == generation + 1
    assert {m.member_id for m in newcomer.response.members} == {
        beta,
        newcomer.response.member_id,
    }


def test_a_rebalance_that_no_member_joins_waits_for_static_members(shell: Shell) -> None:
    generation, (alpha, beta) = static_group(shell, "alpha", "beta")
    shell.join(version=3)
    dynamic = shell.shard.describe("readers", 5).members[-1].member_id
    shell.leave(member(dynamic))
    for _ in range(25):  # the rebalance timeout passes, and nobody has joined
        shell.advance(3)
        assert shell.heartbeat(alpha, generation) is ErrorCode.REBALANCE_IN_PROGRESS
        assert shell.heartbeat(beta, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    calls = [shell.join(alpha, instance="alpha"), shell.join(beta, instance="beta")]
    assert {call.response.generation_id for call in calls} == {generation + 1}


def test_a_static_member_that_stays_away_is_removed_with_its_session(shell: Shell) -> None:
    _, (alpha, beta) = static_group(shell, "alpha", "beta")
    rejoined = shell.join(alpha, instance="alpha")
    shell.advance(10)
    assert [m.member_id for m in rejoined.response.members] == [alpha]
    assert shell.heartbeat(beta, 1, instance="beta") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_still_lets_a_static_member_restart() -> None:
    shell = Shell(group_max_size=2)
    generation, _ = static_group(shell, "alpha", "beta")
    assert shell.join(instance="beta").response.generation_id == generation
    assert shell.join(instance="gamma").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_that_restarts_before_its_sync_must_still_sync(shell: Shell) -> None:
    calls = [shell.join(instance=name) for name in ("alpha", "beta")]
    shell.advance(6)
    leader, follower = (call.response.member_id for call in calls)
    shell.sync(leader, 1, {leader: b"all", follower: b"none"})
    new = shell.join(instance="beta").response.member_id
    for _ in range(20):
        shell.advance(3)
        shell.heartbeat(leader, 1)
        shell.heartbeat(new, 1)
    assert shell.heartbeat(new, 1) is ErrorCode.UNKNOWN_MEMBER_ID  # it never sent SyncGroup


# --- when the new id cannot be stored -------------------------------------------------------


def test_a_restart_that_cannot_be_stored_leaves_the_old_id_in_place(shell: Shell) -> None:
    generation, (alpha, beta) = static_group(shell, "alpha", "beta")
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    call = shell.join(instance="alpha", protocols=[("range", b"x")], session_ms=50_000)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert call.response.member_id == ""
    assert shell.heartbeat(alpha, generation, instance="alpha") is ErrorCode.NONE
    shell.append_error = ErrorCode.NONE
    # Still the leader, and with the metadata and session timeout that it had.
    described = {m.member_id: m for m in shell.shard.describe("readers", 5).members}
    assert described[alpha].member_metadata == RANGE[0][1]
    assert shell.join(beta, instance="beta").response.leader == alpha
    shell.advance(10)
    assert shell.heartbeat(alpha, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_during_the_write_answers_the_restarted_member(shell: Shell) -> None:
    generation, (alpha, _) = static_group(shell, "alpha", "beta")
    shell.holds_commits = True
    restarted = shell.join(instance="beta")
    rejoined = shell.join(alpha, instance="alpha")
    shell.commit_one()  # the new id is stored; the next generation is not
    assert not restarted.is_answered
    shell.commit_all()
    assert len(rejoined.response.members) == 2
    assert restarted.response.generation_id == generation + 1
    assert rejoined.response.generation_id == generation + 1


def test_of_two_restarts_in_a_row_only_the_last_stays(shell: Shell) -> None:
    generation, _ = static_group(shell, "alpha", "beta")
    shell.holds_commits = True
    first, second = shell.join(instance="beta"), shell.join(instance="beta")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    shell.commit_all()
    assert second.response.generation_id == generation


def test_a_restarted_member_that_is_removed_during_the_write_is_answered(shell: Shell) -> None:
    static_group(shell, "alpha", "beta")
    shell.holds_commits = True
    restarted = shell.join(instance="beta")
    assert shell.leave(member(instance="beta")).members[0].error_code == ErrorCode.NONE
    assert restarted.error is ErrorCode.UNKNOWN_MEMBER_ID
    shell.commit_all()
    assert len(shell.shard.describe("readers", 5).members) == 1
