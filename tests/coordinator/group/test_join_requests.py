"""JoinGroup of dynamic members: admission, the first barrier, protocols, rejoining."""

import pytest

from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.harness import RANGE, REBALANCE_MS, SESSION_MS, Shell, subscription

ROUND_ROBIN = ("roundrobin", b"rr")


@pytest.fixture
def shell() -> Shell:
    return Shell()


# --- admission ------------------------------------------------------------------------------


def test_an_empty_group_id_is_invalid(shell: Shell) -> None:
    assert shell.join(group="").error is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_must_be_within_the_brokers_limits(shell: Shell, session_ms: int) -> None:
    call = shell.join("m", session_ms=session_ms)
    assert call.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert call.response.member_id == "m"


def test_a_made_up_member_id_is_unknown(shell: Shell) -> None:
    assert shell.join("made-up").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.state() == "Dead"
    shell.stable_group()
    assert shell.join("made-up").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_dynamic_member_is_sent_back_for_its_id_first_kip_394(shell: Shell) -> None:
    first = shell.join(client_id="app")
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id == "app-1"
    assert first.response.protocol_name is None
    assert shell.state() == "Empty"
    second = shell.join("app-1")
    assert not second.is_answered
    assert shell.state() == "PreparingRebalance"


def test_a_client_before_v4_joins_without_an_id(shell: Shell) -> None:
    call = shell.join(version=3)
    shell.advance(3)
    assert call.error is ErrorCode.NONE
    assert call.response.leader == call.response.member_id == "app-1"


def test_an_id_that_is_not_used_in_time_is_forgotten(shell: Shell) -> None:
    member_id = shell.get_id()
    shell.advance(SESSION_MS / 1000)
    assert shell.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_member_ids_are_limited() -> None:
    shell = Shell(pending_members_max=2)
    shell.get_id()
    shell.get_id()
    assert shell.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_id_fits_into_the_protocol_even_with_a_long_client_id(
    shell: Shell,
) -> None:
    member_id = shell.get_id(client_id="\N{PARTY POPPER}" * 8_100)
    assert member_id.endswith("-1")
    assert len(member_id.encode()) < 32_767


def test_a_rebalance_waits_for_pending_members(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    late = shell.get_id()
    rejoined = shell.join(one)
    assert not rejoined.is_answered
    joined = shell.join(late)
    assert rejoined.response.generation_id == joined.response.generation_id == generation + 1


def test_a_rebalance_continues_when_a_pending_member_times_out(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1)
    shell.get_id()
    rejoined = shell.join(one)
    shell.advance(SESSION_MS / 1000)
    assert rejoined.response.generation_id == generation + 1


# --- group.max.size -------------------------------------------------------------------------


def test_a_full_stable_group_accepts_no_members() -> None:
    shell = Shell(group_max_size=2)
    shell.stable_group(2)
    call = shell.join(version=3)
    assert call.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert call.response.member_id == ""
    assert shell.state() == "Stable"


def test_in_a_rebalance_of_a_full_group_the_first_to_join_stay() -> None:
    shell = Shell()
    generation, (one, two) = shell.stable_group(2)
    shell = shell.restart(group_max_size=1)  # loads two members, and asks them to join again
    assert shell.heartbeat(one, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    first = shell.join(one)
    again = shell.join(one)  # it is already a member
    assert first.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    second = shell.join(two)
    assert second.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert again.response.generation_id == generation + 1
    assert [m.member_id for m in again.response.members] == [one]


def test_a_pending_member_is_refused_when_the_group_is_full() -> None:
    shell = Shell(group_max_size=1)
    one, two = shell.get_id(), shell.get_id()
    shell.join(one)
    assert shell.join(two).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shell.join(two).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    shell.advance(3)
    assert len(shell.shard.describe("readers", 5).members) == 1


# --- the first rebalance of a group ---------------------------------------------------------


def test_an_empty_group_waits_for_more_members_before_its_first_generation(shell: Shell) -> None:
    first = shell.join(version=3)
    shell.advance(2.9)
    assert not first.is_answered
    shell.advance(0.1)
    assert first.response.generation_id == 1


def test_each_new_member_extends_the_first_rebalance(shell: Shell) -> None:
    first = shell.join(version=3)
    shell.advance(2)
    second = shell.join(version=3)
    shell.advance(1)
    assert not first.is_answered
    shell.advance(3)
    assert {first.response.generation_id, second.response.generation_id} == {1}


def test_the_first_rebalance_ends_at_the_rebalance_timeout(shell: Shell) -> None:
    calls = [shell.join(version=3, rebalance_ms=10_000)]
    for _ in range(4):
        shell.advance(2.5)
        calls.append(shell.join(version=3, rebalance_ms=10_000))
    assert [call.is_answered for call in calls] == [True] * 4 + [False]
    assert calls[0].response.generation_id == 1


def test_without_a_delay_the_first_member_gets_its_generation_immediately() -> None:
    shell = Shell(group_initial_rebalance_delay_ms=0)
    call = shell.join(version=3)
    shell.advance(0)
    assert call.response.generation_id == 1


# --- joins of a running group ---------------------------------------------------------------


def test_a_new_member_makes_a_stable_group_rebalance(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group(2)
    newcomer = shell.join(shell.get_id())
    assert shell.heartbeat(leader, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    leaders, followers = shell.join(leader), shell.join(follower)
    assert shell.state() == "CompletingRebalance"
    for call in (newcomer, leaders, followers):
        assert call.response.generation_id == generation + 1
        assert call.response.leader == leader
        assert call.response.protocol_name == "range"
        assert call.response.protocol_type == "consumer"
        assert not call.response.skip_assignment
    assert {m.member_id for m in leaders.response.members} == {
        leader,
        follower,
        newcomer.response.member_id,
    }
    assert leaders.response.members[0].metadata == RANGE[0][1]
    assert newcomer.response.members == followers.response.members == []


def test_members_that_do_not_join_in_time_are_dropped(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group(2, session_ms=1_000_000)
    rejoined = shell.join(follower, protocols=[ROUND_ROBIN, *RANGE])
    shell.advance(REBALANCE_MS / 1000 - 1)
    assert not rejoined.is_answered
    shell.advance(1)
    assert rejoined.response.generation_id == generation + 1
    assert rejoined.response.leader == follower
    assert shell.heartbeat(leader, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_later_rebalance_is_not_extended_by_new_members(shell: Shell) -> None:
    shell.stable_group(2, session_ms=1_000_000)
    newcomer = shell.join(version=3)
    for _ in range(5):
        shell.advance(10)
        shell.join(version=3)
    shell.advance(10)
    assert newcomer.response.generation_id == 2


def test_a_rebalance_waits_as_long_as_its_slowest_member_may_take(shell: Shell) -> None:
    _, (one,) = shell.stable_group(1, rebalance_ms=90_000, session_ms=200_000)
    newcomer = shell.join(version=3)
    shell.advance(89)
    assert not newcomer.is_answered
    shell.advance(1)
    assert one not in {m.member_id for m in newcomer.response.members}


def test_v0_has_one_timeout_for_session_and_rebalance(shell: Shell) -> None:
    call = shell.join(version=0, session_ms=20_000)
    shell.advance(3)
    shell.sync(call.response.member_id, 1, {})
    shell.advance(15)
    newcomer = shell.join(version=0)
    shell.heartbeat(call.response.member_id, 1)
    shell.advance(19)
    assert not newcomer.is_answered
    shell.advance(1)
    assert newcomer.response.leader == newcomer.response.member_id


def test_a_new_member_that_disappears_is_dropped_after_five_minutes(shell: Shell) -> None:
    shell.stable_group(1, rebalance_ms=1_000_000, session_ms=1_000_000)
    newcomer = shell.join(version=3)
    shell.advance(299)
    assert not newcomer.is_answered
    shell.advance(1)
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer.response.member_id == ""
    assert newcomer.response.protocol_name == ""


def test_waiting_in_join_keeps_a_session_alive(shell: Shell) -> None:
    generation, (leader, _) = shell.stable_group(2, session_ms=6_000)
    other = shell.join(version=3, session_ms=6_000)
    rejoined = shell.join(leader, session_ms=6_000)
    shell.advance(6)
    # The session of the member that did not join has ended; all others have joined.
    assert rejoined.response.generation_id == other.response.generation_id == generation + 1


def test_the_leader_joining_again_starts_a_rebalance(shell: Shell) -> None:
    generation, (leader, follower) = shell.stable_group(2)
    call = shell.join(leader)
    assert not call.is_answered
    assert shell.heartbeat(follower, generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unchanged_follower_joining_again_gets_the_current_generation(
    shell: Shell,
) -> None:
    generation, (leader, follower) = shell.stable_group(2)
    call = shell.join(follower)
    assert call.response.generation_id == generation
    assert call.response.leader == leader
    assert call.response.members == []
    assert shell.state() == "Stable"


def test_a_follower_with_another_subscription_starts_a_rebalance(shell: Shell) -> None:
    _, (_, follower) = shell.stable_group(2)
    call = shell.join(follower, protocols=[("range", subscription("other"))])
    assert not call.is_answered
    assert shell.state() == "PreparingRebalance"


def test_a_member_that_lost_the_answer_joins_again_before_the_sync(shell: Shell) -> None:
    calls = [shell.join(version=3), shell.join(version=3)]
    shell.advance(6)
    for call in calls:
        again = shell.join(call.response.member_id, version=3)
        assert again.response == call.response
    assert shell.state() == "CompletingRebalance"


def test_a_changed_member_joining_again_before_the_sync_starts_over(shell: Shell) -> None:
    call = shell.join(version=3)
    shell.advance(3)
    again = shell.join(call.response.member_id, version=3, protocols=[ROUND_ROBIN, *RANGE])
    assert again.response.generation_id == 2
    assert again.response.protocol_name == "roundrobin"


def test_a_second_join_of_one_member_replaces_the_first(shell: Shell) -> None:
    _, (leader, _) = shell.stable_group(2)
    first, second = shell.join(leader), shell.join(leader)
    assert first.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not second.is_answered


# --- protocols ------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", [])])
def test_a_member_must_offer_a_protocol(
    shell: Shell, protocol_type: str, protocols: list[tuple[str, bytes]]
) -> None:
    call = shell.join(protocol_type=protocol_type, protocols=protocols)
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.state() == "Dead"  # it left nothing behind


def test_a_member_of_another_protocol_type_is_refused(shell: Shell) -> None:
    shell.stable_group()
    call = shell.join(protocol_type="connect")
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_without_a_common_protocol_is_refused(shell: Shell) -> None:
    shell.stable_group()
    call = shell.join(protocols=[ROUND_ROBIN])
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_change_its_protocol_type(shell: Shell) -> None:
    _, (one,) = shell.stable_group(1)
    assert shell.leave_v2(one) is ErrorCode.NONE
    shell.stable_group(1, protocol_type="connect", protocols=[("eager", b"")])
    assert shell.shard.describe("readers", 5).protocol_type == "connect"


def test_the_protocol_with_most_votes_among_the_common_ones_wins(shell: Shell) -> None:
    first = [("sticky", b""), ("roundrobin", b""), ("range", b"")]
    second = [("roundrobin", b""), ("range", b"")]
    third = [("range", b""), ("roundrobin", b"")]
    calls = [shell.join(version=3, protocols=offered) for offered in (first, second, third)]
    shell.advance(6)
    assert {call.response.protocol_name for call in calls} == {"roundrobin"}


def test_a_protocol_that_a_member_dropped_is_not_common(shell: Shell) -> None:
    generation, (one,) = shell.stable_group(1, protocols=[*RANGE, ROUND_ROBIN])
    shell.join(one, protocols=[ROUND_ROBIN])
    assert shell.join(protocols=RANGE).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.heartbeat(one, generation + 1) is ErrorCode.NONE
