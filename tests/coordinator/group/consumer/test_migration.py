"""Groups that turn from classic to consumer groups and back while they have members (KIP-848)."""

from __future__ import annotations

import pytest

from minikafka.coordinator.group.consumer.embedded import decode_assignment, encode_assignment
from minikafka.coordinator.group.consumer.partitions import Partitions
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.consumer_shell import (
    REBALANCE_MS,
    ConsumerShell,
    Obedient,
    World,
    settle,
)
from tests.coordinator.group.harness import GROUP, SESSION_MS, TOPIC, member

VERSION = 1
"""Of the subscriptions that the harness sends."""


@pytest.fixture
def shell() -> ConsumerShell:
    return ConsumerShell(World(flights=4))


def classic_group(shell: ConsumerShell) -> tuple[int, str, str]:
    """Two classic members with two partitions each."""
    calls = [shell.join(shell.get_id()) for _ in range(2)]
    while not calls[0].is_answered:
        shell.advance(3)
    ids = [call.response.member_id for call in calls]
    leader, generation = calls[0].response.leader, calls[0].response.generation_id
    other = next(one for one in ids if one != leader)
    topic_id = shell.world.id_of(TOPIC)
    shares = {
        leader: {topic_id: frozenset({0, 1})},
        other: {topic_id: frozenset({2, 3})},
    }
    encoded = {one: encode_assignment(shares[one], shell.world, VERSION) for one in ids}
    shell.sync(other, generation)
    shell.sync(leader, generation, encoded)
    return generation, leader, other


def rejoin(shell: ConsumerShell, member_id: str) -> tuple[int, Partitions]:
    """A classic member joins again and syncs; its generation and what it gets."""
    joined = shell.join(member_id)
    assert joined.error is ErrorCode.NONE
    synced = shell.sync(member_id, joined.response.generation_id)
    assert synced.error is ErrorCode.NONE
    found = decode_assignment(synced.response.assignment, shell.world)
    return joined.response.generation_id, found


def size(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def test_a_classic_group_is_upgraded_when_a_consumer_joins(shell: ConsumerShell) -> None:
    generation, first, second = classic_group(shell)
    consumer = Obedient(shell, "A", TOPIC)
    assert consumer.epoch == generation + 1
    assert consumer.owned == {}  # all partitions are in use
    group = shell.describe_consumers()
    assert {one.member_id: one.member_type for one in group.members} == {
        first: 0,
        second: 0,
        "A": 1,
    }
    assert shell.heartbeat(first, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    shares = [rejoin(shell, one) for one in (first, second)]
    assert [epoch for epoch, _ in shares] == [generation + 1] * 2
    settle(consumer)
    assert [size(found) for _, found in shares] + [len(consumer.indexes(TOPIC))] == [2, 1, 1]
    assert shell.heartbeat(first, generation + 1) is ErrorCode.NONE
    assert shell.describe_consumers().group_state == "Stable"
    assert shell.restart().describe_consumers().group_state == "Stable"


def test_offsets_survive_an_upgrade_and_commits_go_on(shell: ConsumerShell) -> None:
    generation, first, _ = classic_group(shell)
    assert shell.commit(3, member_id=first, generation=generation) is ErrorCode.NONE
    Obedient(shell, "A", TOPIC)
    assert shell.offset() == 3
    # The member has not joined again: what it has read still counts.
    assert shell.commit(4, member_id=first, generation=generation) is ErrorCode.NONE
    stale = shell.commit(5, member_id=first, generation=generation + 1)
    assert stale is ErrorCode.ILLEGAL_GENERATION


def test_members_that_wait_in_a_rebalance_are_told_to_join_again(shell: ConsumerShell) -> None:
    generation, first, _ = classic_group(shell)
    waiting = shell.join(first, protocols=(("range", b"\0\1" + bytes(12)),))
    assert not waiting.is_answered
    Obedient(shell, "A", TOPIC)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    shell.advance(REBALANCE_MS / 1000 * 3)  # no classic timer is left to go wrong
    assert shell.describe_consumers().group_epoch > generation


def test_a_classic_member_may_join_a_consumer_group(shell: ConsumerShell) -> None:
    consumer = Obedient(shell, "A", TOPIC)
    classic = shell.get_id()
    epoch, found = rejoin(shell, classic)
    assert (epoch, found) == (2, {})
    settle(consumer)
    assert shell.heartbeat(classic, 2) is ErrorCode.REBALANCE_IN_PROGRESS  # to fetch what is free
    assert size(rejoin(shell, classic)[1]) == 2
    assert shell.heartbeat(classic, 2) is ErrorCode.NONE


def test_the_last_consumer_that_leaves_downgrades_the_group(shell: ConsumerShell) -> None:
    _, first, second = classic_group(shell)
    consumer = Obedient(shell, "A", TOPIC)
    epoch = consumer.epoch
    for one in (first, second):
        rejoin(shell, one)
    consumer.leave()
    assert shell.describe_consumers().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.state() == "PreparingRebalance"
    assert shell.heartbeat(first, epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    calls = [shell.join(one) for one in (first, second)]
    assert {call.response.generation_id for call in calls} == {epoch + 1}
    leader = calls[0].response.leader
    ids = sorted((first, second), key=lambda one: one != leader)
    shell.sync_all(ids, epoch + 1)
    restarted = shell.restart()
    assert restarted.state() == "Stable"
    assert restarted.heartbeat(first, epoch + 1) is ErrorCode.NONE


def test_a_consumer_that_dies_downgrades_the_group_too(shell: ConsumerShell) -> None:
    _, first, second = classic_group(shell)
    consumer = Obedient(shell, "A", TOPIC)
    for one in (first, second):
        rejoin(shell, one)
    for _ in range(10):
        shell.advance(SESSION_MS / 2000)
        for one in (first, second):
            shell.heartbeat(one, consumer.epoch)
    assert shell.state() == "PreparingRebalance"


def test_members_may_leave_by_the_classic_protocol(shell: ConsumerShell) -> None:
    consumer = Obedient(shell, "A", TOPIC)
    classic = shell.get_id()
    rejoin(shell, classic)
    answers = shell.leave(member(classic), member("A"), member("nobody")).members
    assert [one.error_code for one in answers] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,  # it speaks the other protocol
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    settle(consumer)
    assert len(consumer.indexes(TOPIC)) == 4


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(
    shell: ConsumerShell,
) -> None:
    generation, first, second = classic_group(shell)
    consumer = Obedient(shell, "A", TOPIC)
    for _ in range(14):
        for one in (first, second):
            shell.heartbeat(one, generation)
        consumer.beat()
        shell.advance(5)
    settle(consumer)
    assert len(consumer.indexes(TOPIC)) == 4


def test_a_classic_member_that_does_not_sync_is_removed(shell: ConsumerShell) -> None:
    consumer = Obedient(shell, "A", TOPIC)
    classic = shell.get_id()
    joined = shell.join(classic)
    for _ in range(14):
        shell.heartbeat(classic, joined.response.generation_id)
        consumer.beat()
        shell.advance(5)
    assert [one.member_id for one in shell.describe_consumers().members] == ["A"]


@pytest.mark.parametrize("policy", ["allows_upgrade", "consumer_max_size"])
def test_an_upgrade_may_be_refused(policy: str) -> None:
    settings = {"allows_upgrade": False} if policy == "allows_upgrade" else {policy: 1}
    shell = ConsumerShell(World(flights=4), **settings)
    generation, first, _ = classic_group(shell)
    refused = shell.beat("A", 0, owned={}, topics=[TOPIC], rebalance_ms=REBALANCE_MS)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.state() == "Stable"
    assert shell.heartbeat(first, generation) is ErrorCode.NONE


def test_a_group_that_may_not_be_downgraded_stays_as_it_is() -> None:
    shell = ConsumerShell(World(flights=4), allows_downgrade=False)
    _, first, second = classic_group(shell)
    consumer = Obedient(shell, "A", TOPIC)
    for one in (first, second):
        rejoin(shell, one)
    consumer.leave()
    assert shell.describe_consumers().error_code == ErrorCode.NONE
    assert [size(rejoin(shell, one)[1]) for one in (first, second)] == [2, 2]


def test_a_group_of_another_protocol_type_is_not_upgraded(shell: ConsumerShell) -> None:
    shell.stable_group(protocol_type="connect", protocols=(("v1", b"opaque"),))
    refused = shell.beat("A", 0, owned={}, topics=[TOPIC], rebalance_ms=REBALANCE_MS)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message is not None
    assert "'connect'" in refused.error_message


@pytest.mark.parametrize("metadata", [b"", b"\xff\xff", b"\0\1\0\0\0\5"])
def test_a_subscription_that_cannot_be_read_is_refused(
    shell: ConsumerShell, metadata: bytes
) -> None:
    Obedient(shell, "A", TOPIC)
    call = shell.join("B", protocols=(("range", metadata),))
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    alien = shell.join("B", protocol_type="connect")
    assert alien.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_static_member_changes_its_protocol_and_keeps_its_place(shell: ConsumerShell) -> None:
    first = Obedient(shell, "A1", TOPIC, instance="a")
    second = Obedient(shell, "B1", TOPIC, instance="b")
    settle(first, second)
    joined = shell.join(instance="a")
    assert joined.error is ErrorCode.NONE
    names = {one.instance_id: one.member_type for one in shell.describe_consumers().members}
    assert names == {"a": 0, "b": 1}
    synced = shell.sync(joined.response.member_id, joined.response.generation_id, instance="a")
    assert size(decode_assignment(synced.response.assignment, shell.world)) == 2
    back = Obedient(shell, "A2", TOPIC, instance="a")
    settle(back, second)
    assert len(back.indexes(TOPIC)) == 2


def test_requests_of_strangers_are_refused(shell: ConsumerShell) -> None:
    Obedient(shell, "A", TOPIC)
    assert shell.heartbeat("A", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.sync("B", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.leave_v2("B") is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.join(session_ms=1).error is ErrorCode.INVALID_SESSION_TIMEOUT
    classic = shell.get_id()
    epoch, _ = rejoin(shell, classic)
    assert shell.sync(classic, epoch - 1).error is ErrorCode.ILLEGAL_GENERATION
    other = shell.sync(classic, epoch, protocol="roundrobin")
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.describe_consumers(GROUP).error_code == ErrorCode.NONE
