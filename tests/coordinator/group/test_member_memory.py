"""What members take is counted, over all groups and shards, and limited."""

from minikafka.coordinator.group import GroupConfig, GroupShard
from minikafka.coordinator.group.member_memory import MEMBER_OVERHEAD_BYTES, MemberMemory
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.harness import RANGE, SESSION_MS, Shell

LARGE = (("range", bytes(1_000_000)),)


def test_members_of_all_groups_share_the_limit() -> None:
    memory = MemberMemory(2_500_000)
    one, other = Shell(member_memory=memory), Shell(member_memory=memory)
    assert not one.join(version=3, protocols=LARGE).is_answered
    assert not other.join(version=3, protocols=LARGE).is_answered
    for shell in (one, other):
        refused = shell.join(version=3, protocols=LARGE)
        assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not other.join(version=3, protocols=RANGE).is_answered


def test_a_member_may_not_grow_past_the_limit() -> None:
    shell = Shell(member_memory=MemberMemory(500_000))
    generation, (member_id,) = shell.stable_group(1)
    assert shell.join(member_id, protocols=LARGE).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shell.heartbeat(member_id, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_that_were_handed_out_count_until_they_expire() -> None:
    memory = MemberMemory(10 * MEMBER_OVERHEAD_BYTES)
    shell = Shell(member_memory=memory)
    while (call := shell.join()).error is ErrorCode.MEMBER_ID_REQUIRED:
        assert call.response.member_id
    assert call.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    shell.advance(SESSION_MS / 1000)
    assert memory.used_bytes == 0
    assert shell.join().error is ErrorCode.MEMBER_ID_REQUIRED


def test_the_count_is_right_after_anything_that_members_do() -> None:
    memory = MemberMemory(10**9)
    shell = Shell(member_memory=memory)
    assert memory.used_bytes == 0
    generation, (one, two) = shell.stable_group(2)
    two_members = memory.used_bytes
    assert two_members > 2 * MEMBER_OVERHEAD_BYTES
    shell.shard.resigned()
    shell = shell.restart(member_memory=memory)
    assert memory.used_bytes == two_members, "the log has two records of the group"
    rejoined = [shell.join(member_id, protocols=LARGE) for member_id in (one, two)]
    assert {call.response.generation_id for call in rejoined} == {generation + 1}
    assert memory.used_bytes > 2_000_000
    shell.advance(10 * SESSION_MS / 1000)
    assert memory.used_bytes == 0


def test_the_memory_of_a_shard_ends_with_it() -> None:
    memory = MemberMemory(10**9)
    shell = Shell(member_memory=memory)
    shell.stable_group(2)
    shell.shard.resigned()
    assert memory.used_bytes == 0
    given_up = GroupShard(GroupConfig(member_memory=memory), new_id=lambda: "id")
    for key, value in shell.log:
        given_up.replay(key, value)
    assert memory.used_bytes > 0
    del given_up, key, value
    assert memory.used_bytes == 0
