"""ConsumerGroupHeartbeat: the scenarios of KIP-848, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.consumer_shell import (
    REBALANCE_MS,
    SESSION_S,
    ConsumerShell,
    Obedient,
    World,
    assigned,
    owners,
    settle,
)
from tests.coordinator.group.harness import GROUP, Call


@pytest.fixture
def shell() -> ConsumerShell:
    return ConsumerShell(World(flights=6))


def indexes(shell: ConsumerShell, *numbers: int, topic: str = "flights") -> dict[bytes, Any]:
    return {shell.world.id_of(topic): frozenset(numbers)}


# --- the life of a group --------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once(shell: ConsumerShell) -> None:
    response = shell.beat("A", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert response.error_code == ErrorCode.NONE
    assert response.member_epoch == 1
    assert response.heartbeat_interval_ms == 5_000
    assert assigned(response) == indexes(shell, 0, 1, 2, 3, 4, 5)
    assert shell.epochs() == (1, 1, {"A": 1})
    assert shell.describe_consumers().group_state == "Stable"


def test_a_second_member_waits_until_partitions_are_given_up(shell: ConsumerShell) -> None:
    """The example of KIP-848: a member joins, and another one revokes for it."""
    shell.join_consumers("A", "flights")
    joined = shell.beat("B", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert (joined.member_epoch, assigned(joined)) == (2, {})
    assert shell.epochs() == (2, 2, {"A": 1, "B": 2})
    assert shell.describe_consumers().group_state == "Reconciling"
    told = shell.beat("A", 1, owned=indexes(shell, *range(6)))
    assert told.member_epoch == 1  # until it has revoked
    kept = assigned(told)
    assert sum(map(len, kept.values())) == 3
    assert shell.beat("B", 2).assignment is None
    done = shell.beat("A", 1, owned=kept)
    assert done.member_epoch == 2
    free = shell.beat("B", 2, owned={})
    assert sum(map(len, assigned(free).values())) == 3
    assert owners_do_not_overlap(kept, assigned(free))
    assert shell.describe_consumers().group_state == "Stable"


def owners_do_not_overlap(left: dict[bytes, Any], right: dict[bytes, Any]) -> bool:
    return all(left[topic].isdisjoint(right.get(topic, ())) for topic in left)


def test_partitions_stay_where_they_are_when_members_come_and_go(shell: ConsumerShell) -> None:
    first, second = Obedient(shell, "A", "flights"), Obedient(shell, "B", "flights")
    settle(first, second)
    had = first.indexes("flights")
    third = Obedient(shell, "C", "flights")
    settle(first, second, third)
    assert [len(one.indexes("flights")) for one in (first, second, third)] == [2, 2, 2]
    assert first.indexes("flights") < had
    third.leave()
    settle(first, second)
    assert len(first.indexes("flights")) == len(second.indexes("flights")) == 3
    assert all(len(readers) == 1 for readers in owners([first, second]).values())


def test_a_member_that_is_told_nothing_new_gets_no_assignment(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    log = len(shell.log)
    assert shell.beat("A", 1).assignment is None
    assert len(shell.log) == log


def test_a_full_heartbeat_gets_the_assignment_again(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    again = shell.beat("A", 1, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert assigned(again) == indexes(shell, *range(6))


def test_the_answer_waits_until_it_is_committed(shell: ConsumerShell) -> None:
    shell.holds_commits = True
    call = shell.beat_later("A", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert not call.is_answered
    # An answer without a write speaks of the same state, so it waits too.
    again = shell.beat_later("A", 1)
    assert not again.is_answered
    shell.commit_all()
    assert (call.response.member_epoch, again.response.member_epoch) == (1, 1)


def test_a_join_whose_write_fails_leaves_no_member(shell: ConsumerShell) -> None:
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = shell.beat("A", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    shell.append_error = ErrorCode.NONE
    assert shell.describe_consumers().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.shard.deadline() is not None  # retention only
    shell.advance(SESSION_S * 2)


def test_a_member_that_leaves_frees_its_partitions(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    left = shell.beat("A", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.NONE, "A", -1)
    assert shell.describe_consumers().group_state == "Empty"
    assert shell.epochs() == (2, 1, {})
    assert assigned(
        shell.beat("B", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    ) == indexes(shell, *range(6))


# --- time -----------------------------------------------------------------------------------------


def test_a_silent_member_is_removed(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.advance(SESSION_S - 1)
    shell.beat("A", 1)
    shell.advance(SESSION_S - 1)
    assert shell.epochs()[2] == {"A": 1}
    shell.advance(2)
    assert shell.epochs() == (2, 1, {})
    assert shell.beat("A", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_in_time_is_fenced(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.join_consumers("B", "flights")
    everything = indexes(shell, *range(6))
    for _ in range(REBALANCE_MS // 1000):
        assert shell.beat("A", 1, owned=everything).error_code == ErrorCode.NONE
        shell.beat("B", 2)
        shell.advance(1)
    assert shell.beat("A", 1, owned=everything).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(shell.beat("B", 2, owned={})) == everything


def test_timers_run_again_after_a_restart(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.join_consumers("B", "flights")
    shell.beat("A", 1, owned=indexes(shell, *range(6)))
    next_one = shell.restart()
    next_one.advance(REBALANCE_MS / 1000 + 1)
    assert next_one.beat("A", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    next_one.advance(SESSION_S)
    assert next_one.describe_consumers().members == []


def test_a_fence_that_cannot_be_written_is_tried_again(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    shell.advance(SESSION_S + 1)
    assert "A" in shell.epochs()[2]
    shell.append_error = ErrorCode.NONE
    shell.advance(10)
    assert shell.epochs()[2] == {}


# --- epochs and fencing ---------------------------------------------------------------------------


def test_epochs_that_the_coordinator_does_not_know_are_fenced(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    assert shell.beat("A", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert shell.beat("B", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.beat("A", 1, group="other").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_previous_epoch_is_accepted_because_an_answer_may_be_lost(shell: ConsumerShell) -> None:
    member = Obedient(shell, "A", "flights")
    other = Obedient(shell, "B", "flights")
    settle(member, other)
    other.leave()
    before, owned = member.epoch, dict(member.owned)
    assert shell.beat("A", before, owned=owned).member_epoch == before + 1  # ... is lost
    again = shell.beat("A", before, owned=owned, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, before + 1)
    assert assigned(again) == indexes(shell, *range(6))
    assert shell.beat("A", before).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    foreign = shell.beat("A", before, owned={bytes(16): frozenset({0})})
    assert foreign.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_join_again_with_its_id(shell: ConsumerShell) -> None:
    """Its answer was lost, or it was told that its epoch is not known."""
    shell.join_consumers("A", "flights")
    again = shell.beat("A", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, 1)
    assert assigned(again) == indexes(shell, *range(6))


@pytest.mark.parametrize(
    ("epoch", "options", "words"),
    [
        (0, {"owned": {}, "topics": ["flights"]}, "RebalanceTimeoutMs"),
        (0, {"topics": ["flights"], "rebalance_ms": 1}, "TopicPartitions"),
        (0, {"owned": {bytes(16): {0}}, "topics": ["t"], "rebalance_ms": 1}, "TopicPartitions"),
        (0, {"owned": {}, "rebalance_ms": 1}, "SubscribedTopicNames"),
        (-3, {}, "MemberEpoch"),
        (-2, {}, "InstanceId"),
        (1, {"instance": " "}, "InstanceId"),
        (1, {"rack": ""}, "RackId"),
        (1, {"group": ""}, "GroupId"),
        (1, {"member_id": ""}, "MemberId"),
        (0, {"member_id": "", "owned": {}, "topics": ["t"], "rebalance_ms": 1}, "MemberId"),
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(
    shell: ConsumerShell, epoch: int, options: dict[str, Any], words: str
) -> None:
    member_id = options.pop("member_id", "A")
    response = shell.beat(member_id, epoch, **options)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message is not None
    assert words in response.error_message
    assert shell.log == []


def test_the_coordinator_makes_the_member_id_in_version_0(shell: ConsumerShell) -> None:
    options: dict[str, Any] = {"topics": ["flights"], "rebalance_ms": REBALANCE_MS}
    response = shell.beat("", 0, owned={}, version=0, **options)
    assert response.member_id == "1"
    assert list(shell.epochs()[2]) == ["1"]


def test_an_assignor_that_does_not_exist_is_refused_by_name(shell: ConsumerShell) -> None:
    response = shell.beat("A", 1, assignor="sticky")
    assert response.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert response.error_message is not None
    assert "uniform, range" in response.error_message


def test_members_choose_the_assignor_by_majority() -> None:
    shell = ConsumerShell(World(flights=4, airports=4))
    first = Obedient(shell, "A", "flights", "airports", assignor="range")
    second = Obedient(shell, "B", "flights", "airports")
    settle(first, second)
    assert shell.describe_consumers().assignor_name == "range"
    assert first.indexes("flights") == first.indexes("airports") == {0, 1}


def test_a_full_group_takes_nobody_else() -> None:
    shell = ConsumerShell(World(flights=6), consumer_max_size=1)
    shell.join_consumers("A", "flights")
    full = shell.beat("B", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS)
    assert full.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shell.beat("A", 1).error_code == ErrorCode.NONE


# --- topics ---------------------------------------------------------------------------------------


def test_new_partitions_raise_the_group_epoch() -> None:
    shell = ConsumerShell(World(flights=1))
    member = Obedient(shell, "A", "flights")
    shell.world.grow("flights", 3)
    shell.topics_changed("flights")
    assert shell.epochs() == (2, 1, {"A": 1})
    assert shell.describe_consumers().group_state == "Assigning"
    settle(member)
    assert (member.epoch, member.indexes("flights")) == (2, {0, 1, 2})


def test_a_topic_may_be_created_and_deleted_after_it_is_subscribed() -> None:
    shell = ConsumerShell(World())
    member = Obedient(shell, "A", "flights")
    assert member.owned == {}
    shell.world.create("flights", 2)
    shell.topics_changed("flights")
    settle(member)
    assert member.indexes("flights") == {0, 1}
    old_id = shell.world.id_of("flights")
    shell.world.delete("flights")
    shell.topics_changed("flights")
    settle(member)
    assert old_id not in member.owned


def test_a_topic_that_nobody_reads_changes_nothing(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.world.create("airports", 2)
    shell.topics_changed("airports")
    assert shell.epochs() == (1, 1, {"A": 1})


def test_topics_that_changed_while_nobody_coordinated_are_noticed() -> None:
    shell = ConsumerShell(World(flights=1))
    shell.join_consumers("A", "flights")
    shell.world.grow("flights", 3)
    assert shell.restart().epochs()[0] == 2


@pytest.mark.parametrize("subscription", [{"topics": ["flights"]}, {"regex": "fl.*"}])
def test_a_change_of_topics_that_cannot_be_written_is_noticed_by_the_next_heartbeat(
    subscription: dict[str, Any],
) -> None:
    shell = ConsumerShell(World(flights=1))
    member = Obedient(shell, "A", *subscription.pop("topics", ()), **subscription)
    shell.world.delete("flights")
    shell.world.create("flights", 3)
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    shell.topics_changed("flights")
    assert member.beat() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    shell.append_error = ErrorCode.NONE
    settle(member)
    assert member.indexes("flights") == {0, 1, 2}


def test_another_subscription_changes_the_assignment() -> None:
    shell = ConsumerShell(World(flights=2, airports=1))
    shell.join_consumers("A", "flights")
    told = shell.beat("A", 1, topics=["airports"])
    assert (told.member_epoch, assigned(told)) == (1, {})  # to be revoked first
    done = shell.beat("A", 1, owned={})
    assert (done.member_epoch, assigned(done)) == (2, indexes(shell, 0, topic="airports"))


# --- regular expressions --------------------------------------------------------------------------


def test_a_regular_expression_is_a_subscription() -> None:
    shell = ConsumerShell(World(flights=2, fleet=1, airports=1))
    member = Obedient(shell, "A", regex="fl.*")
    settle(member)
    assert set(member.owned) == {shell.world.id_of("flights"), shell.world.id_of("fleet")}
    described = shell.describe_consumers().members[0]
    assert (described.subscribed_topic_names, described.subscribed_topic_regex) == ([], "fl.*")


def test_topics_come_and_go_under_a_regular_expression() -> None:
    shell = ConsumerShell(World(flights=2))
    member = Obedient(shell, "A", regex="fl.*")
    shell.world.create("fleet", 1)
    shell.world.create("airports", 1)
    shell.topics_changed("fleet", "airports")
    settle(member)
    assert member.indexes("fleet") == {0}
    gone = shell.world.id_of("fleet")
    shell.world.delete("fleet")
    shell.topics_changed("fleet")
    settle(member)
    assert gone not in member.owned


def test_regular_expressions_are_matched_again_after_a_restart() -> None:
    shell = ConsumerShell(World(flights=2))
    shell.join_consumers("A", regex="fl.*")
    shell.world.create("fleet", 1)
    assert shell.restart().epochs()[0] == 2


def test_members_that_die_together_take_their_expression_with_them() -> None:
    shell = ConsumerShell(World(flights=2, fleet=1))
    for name in ("A", "B"):
        shell.join_consumers(name, regex="fl.*")
    shell.advance(SESSION_S - 5)
    shell.join_consumers("C", "flights")
    epoch = shell.epochs()[0]
    shell.advance(10)
    assert shell.epochs() == (epoch + 2, epoch, {"C": epoch})
    log = len(shell.log)
    shell.world.create("flotilla", 1)
    shell.topics_changed("flotilla")
    assert len(shell.log) == log


def test_an_expression_that_nobody_uses_is_forgotten() -> None:
    shell = ConsumerShell(World(flights=2))
    shell.join_consumers("A", regex="fl.*")
    epoch = shell.beat("A", 1, topics=["flights"], regex="").member_epoch
    assert shell.describe_consumers().members[0].subscribed_topic_regex is None
    log = len(shell.log)
    shell.world.create("fleet", 1)
    shell.topics_changed("fleet")
    assert (len(shell.log), shell.epochs()[2]) == (log, {"A": epoch})


# --- static members -------------------------------------------------------------------------------


def test_a_static_member_that_returns_gets_its_partitions_back(shell: ConsumerShell) -> None:
    first = Obedient(shell, "A1", "flights", instance="a")
    second = Obedient(shell, "B1", "flights", instance="b")
    settle(first, second)
    had, epoch = first.owned, shell.epochs()[0]
    away = shell.beat("A1", -2, instance="a")
    assert (away.error_code, away.member_epoch) == (ErrorCode.NONE, -2)
    settle(second)
    assert len(second.indexes("flights")) == 3
    back = Obedient(shell, "A2", "flights", instance="a")
    assert (back.owned, shell.epochs()[0]) == (had, epoch)
    assert first.beat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_removed(shell: ConsumerShell) -> None:
    shell.join_consumers("A1", "flights", instance="a")
    shell.beat("A1", -2, instance="a")
    shell.advance(SESSION_S + 1)
    assert shell.describe_consumers().members == []


def test_two_members_cannot_have_one_instance_id(shell: ConsumerShell) -> None:
    shell.join_consumers("A1", "flights", instance="a")
    other = shell.beat(
        "A2", 0, owned={}, topics=["flights"], rebalance_ms=REBALANCE_MS, instance="a"
    )
    assert other.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    stranger = shell.beat("A1", 1, instance="b")
    assert stranger.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.beat("A2", 1, instance="a").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert shell.beat("A2", -1, instance="a").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_leaves_for_good_frees_its_partitions(shell: ConsumerShell) -> None:
    shell.join_consumers("A1", "flights", instance="a")
    shell.beat("A1", -1, instance="a")
    assert shell.describe_consumers().members == []


# --- a group of another type ----------------------------------------------------------------------


def test_the_classic_protocol_finds_an_empty_consumer_group_as_none(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.beat("A", -1)
    generation, members = shell.stable_group()
    assert (generation, len(members)) == (1, 2)
    assert shell.describe_consumers().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.restart().state() == "Stable"


def test_an_empty_classic_group_becomes_a_consumer_group_with_its_offsets(
    shell: ConsumerShell,
) -> None:
    assert shell.commit(7) is ErrorCode.NONE
    shell.join_consumers("A", "flights")
    assert shell.offset() == 7
    assert [one.group_type for one in shell.shard.list_groups()] == ["consumer"]
    restarted = shell.restart()
    assert restarted.offset() == 7
    assert restarted.epochs() == (1, 1, {"A": 1})


def test_describe_groups_does_not_know_a_consumer_group(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    found = shell.shard.describe(GROUP, 6)
    assert found.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert found.error_message == f"Group {GROUP} is not a classic group."
    assert shell.shard.describe(GROUP, 5).group_state == "Dead"


def test_list_groups_filters_by_type_and_state(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.stable_group(group="old")

    def listed(states: set[str], types: set[str]) -> list[tuple[str, str, str, str]]:
        return [
            (one.group_id, one.protocol_type, one.group_state, one.group_type)
            for one in shell.shard.list_groups(states, types)
        ]

    assert listed(set(), {"Consumer"}) == [(GROUP, "consumer", "Stable", "consumer")]
    assert listed({"stable"}, {"classic"}) == [("old", "consumer", "Stable", "classic")]
    assert len(listed({"Stable"}, set())) == 2
    assert listed({"Reconciling"}, set()) == []


# --- offsets --------------------------------------------------------------------------------------


def test_commits_are_fenced_by_member_epoch(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    assert shell.commit(1, member_id="A", generation=1) is ErrorCode.NONE
    assert shell.commit(2, member_id="A", generation=0) is ErrorCode.STALE_MEMBER_EPOCH
    assert shell.commit(2, member_id="A", generation=2) is ErrorCode.STALE_MEMBER_EPOCH
    assert shell.commit(2, member_id="B", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.commit(2) is ErrorCode.UNKNOWN_MEMBER_ID  # an administrator, while it is in use
    old = shell.commit(2, member_id="A", generation=1, version=8)
    assert old is ErrorCode.UNSUPPORTED_VERSION
    assert shell.offset() == 1


def test_offsets_of_an_empty_group_are_anybodys(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.beat("A", -1)
    assert shell.commit(5) is ErrorCode.NONE


def test_fetches_are_fenced_by_member_epoch(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")

    def fetch(member_id: str | None, epoch: int) -> int:
        found = shell.shard.offset_fetch(GROUP, None, member_id=member_id, member_epoch=epoch)
        return found.error_code

    assert fetch(None, -1) == ErrorCode.NONE
    assert fetch("A", 1) == ErrorCode.NONE
    assert fetch("A", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("B", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_groups_and_offsets_that_are_in_use_cannot_be_deleted(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.commit(1, member_id="A", generation=1)
    refused = shell.delete_groups(GROUP).response.results[0]
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    kept = shell.delete_offsets(("flights", 0)).response.topics[0].partitions[0]
    assert kept.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    shell.beat("A", 1, topics=["airports"])
    gone = shell.delete_offsets(("flights", 0)).response.topics[0].partitions[0]
    assert gone.error_code == ErrorCode.NONE
    assert shell.offset() == -1


def test_a_deleted_group_leaves_nothing(shell: ConsumerShell) -> None:
    shell.join_consumers("A", regex="fl.*")
    shell.commit(1, member_id="A", generation=1)
    shell.beat("A", -1)
    deleted = shell.delete_groups(GROUP).response.results[0]
    assert deleted.error_code == ErrorCode.NONE
    for one in (shell, shell.restart()):
        assert one.describe_consumers().error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert one.offset() == -1
    latest = dict(shell.log)
    assert set(latest.values()) == {None}


def test_an_unused_group_expires_with_its_last_offset(shell: ConsumerShell) -> None:
    shell.join_consumers("A", "flights")
    shell.commit(1, member_id="A", generation=1)
    shell.beat("A", -1)
    shell.advance(8 * 24 * 3600)
    assert shell.offset() == -1
    assert shell.describe_consumers().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert set(dict(shell.log).values()) == {None}


def test_offsets_of_topics_that_are_read_do_not_expire() -> None:
    world = World(flights=6)
    shell = ConsumerShell(
        world, offsets_retention_ms=60_000, offsets_retention_check_interval_ms=1_000
    )
    shell.join_consumers("A", "flights")
    for topic in ("flights", "airports"):
        shell.commit_later({(topic, 0): 1}, member_id="A", generation=1)
    for _ in range(3):
        shell.advance(30)
        shell.beat("A", 1)
    assert (shell.offset("flights"), shell.offset("airports")) == (1, -1)


def test_a_shard_that_loads_or_has_resigned_says_so(shell: ConsumerShell) -> None:
    shell.carry_out(shell.shard.resigned())
    call: Call[Any] = shell.beat_later("A", 1)
    assert call.error is ErrorCode.NOT_COORDINATOR
    assert shell.describe_consumers().error_code == ErrorCode.NOT_COORDINATOR
