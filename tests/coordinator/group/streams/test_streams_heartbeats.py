"""StreamsGroupHeartbeat: the scenarios of KIP-1071, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.coordinator.group.streams.internal_topics import Status
from minikafka.coordinator.group.streams.tasks import Assignment
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.consumer_shell import World
from tests.coordinator.group.harness import GROUP, commit_error
from tests.coordinator.group.streams.streams_shell import (
    REBALANCE_MS,
    SESSION_S,
    SETTINGS,
    TWO_PARTS,
    WORDS,
    Obedient,
    StreamsShell,
    Topology,
    assigned,
    settle,
    statuses,
    subtopology,
    tasks,
)


@pytest.fixture
def shell() -> StreamsShell:
    return StreamsShell(World(words=4, counts=4))


# --- the life of a group --------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once(shell: StreamsShell) -> None:
    response = shell.join_streams("A")
    assert response.error_code == ErrorCode.NONE, response.error_message
    assert (response.member_id, response.member_epoch) == ("A", 1)
    assert response.heartbeat_interval_ms == 5_000
    assert response.acceptable_recovery_lag == response.acceptable_recovery_lag_v1 == 10_000
    assert response.task_offset_interval_ms == 60_000
    assert assigned(response) == Assignment(tasks(0, 0, 1, 2, 3))
    assert statuses(response) == []
    assert shell.epochs() == (1, 1, {"A": 1})
    assert shell.describe_streams().group_state == "Stable"


def test_a_second_member_waits_until_tasks_are_given_up(shell: StreamsShell) -> None:
    shell.join_streams("A")
    joined = shell.join_streams("B")
    assert (joined.member_epoch, assigned(joined)) == (2, Assignment())
    told = shell.beat("A", 1, owned=Assignment(tasks(0, 0, 1, 2, 3)))
    kept = assigned(told)
    assert kept is not None
    assert (told.member_epoch, len(kept.active)) == (1, 2)
    assert assigned(shell.beat("B", 2)) is None
    assert shell.describe_streams().group_state == "Reconciling"
    assert shell.beat("A", 1, owned=kept).member_epoch == 2
    free = assigned(shell.beat("B", 2, owned=Assignment()))
    assert free is not None
    assert free.active == tasks(0, 0, 1, 2, 3) - kept.active
    assert shell.describe_streams().group_state == "Stable"


def test_a_member_that_leaves_leaves_its_tasks_to_the_others(shell: StreamsShell) -> None:
    first, second = Obedient(shell, "A"), Obedient(shell, "B")
    settle(first, second)
    second.leave()
    settle(first)
    assert first.owned == Assignment(tasks(0, 0, 1, 2, 3))


def test_a_silent_member_is_removed(shell: StreamsShell) -> None:
    first, second = Obedient(shell, "A"), Obedient(shell, "B")
    settle(first, second)
    for _ in range(SESSION_S):
        shell.advance(1)
        first.beat()
    settle(first)
    assert first.owned == Assignment(tasks(0, 0, 1, 2, 3))
    assert second.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_tasks_is_fenced(shell: StreamsShell) -> None:
    everything = Assignment(tasks(0, 0, 1, 2, 3))
    shell.join_streams("A")
    shell.join_streams("B")
    for _ in range(REBALANCE_MS // 5_000):
        shell.beat("A", 1, owned=everything)
        shell.beat("B", 2, owned=Assignment())
        shell.advance(5)
    fenced = shell.beat("A", 1, owned=everything)
    assert fenced.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(shell.beat("B", 2, owned=Assignment())) == everything


def test_a_group_without_members_is_empty_and_can_be_deleted(shell: StreamsShell) -> None:
    shell.join_streams("A")
    assert shell.delete_groups(GROUP).response.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    shell.beat("A", -1)
    assert shell.describe_streams().group_state == "Empty"
    (listed,) = shell.shard.list_groups((), ("streams",))
    assert (listed.group_type, listed.protocol_type) == ("streams", "streams")
    assert shell.delete_groups(GROUP).response.results[0].error_code == ErrorCode.NONE
    assert shell.describe_streams().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.restart().shard.list_groups() == []


def test_members_and_topologies_take_memory_as_long_as_they_are_there(
    shell: StreamsShell,
) -> None:
    used = shell.shard._context.members
    shell.join_streams("A")
    with_one = used.used_bytes
    shell.join_streams("B")
    assert 0 < used.used_bytes - with_one < with_one  # the topology counts once
    shell.beat("A", -1)
    shell.beat("B", -1)
    assert 0 < used.used_bytes < with_one
    shell.delete_groups(GROUP)
    assert used.used_bytes == 0


def test_the_next_coordinator_knows_the_group(shell: StreamsShell) -> None:
    first, second = Obedient(shell, "A"), Obedient(shell, "B", endpoint=("b", 80))
    settle(first, second)
    after = shell.restart()
    assert after.describe_streams() == shell.describe_streams()
    for member in (first, second):
        member.shell = after
        assert member.beat() is ErrorCode.NONE
    assert after.epochs() == shell.epochs()
    after.advance(SESSION_S + 1)
    assert after.describe_streams().group_state == "Empty"


def test_nothing_has_happened_if_the_write_fails(shell: StreamsShell) -> None:
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert shell.join_streams("A").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.describe_streams().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_answer_waits_until_it_is_committed(shell: StreamsShell) -> None:
    shell.holds_commits = True
    call = shell.beat_later(
        "A", 0, owned=Assignment(), topology=WORDS, process="p", rebalance_ms=REBALANCE_MS
    )
    assert not call.is_answered
    shell.commit_all()
    assert call.response.member_epoch == 1


def test_a_lost_answer_is_given_once_more(shell: StreamsShell) -> None:
    shell.join_streams("A")
    shell.join_streams("B")
    kept = assigned(shell.beat("A", 1, owned=Assignment(tasks(0, 0, 1, 2, 3))))
    assert kept is not None
    assert shell.beat("A", 1, owned=kept).member_epoch == 2
    again = shell.beat("A", 1, owned=kept)
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, 2)
    assert assigned(again) is None  # it has what it should have
    fenced = shell.beat("A", 7, owned=kept)
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_tasks_of_a_lost_answer_are_named_once_more(shell: StreamsShell) -> None:
    """Kafka would not: the member would have its new epoch, and never its tasks."""
    first, second = Obedient(shell, "A"), Obedient(shell, "B")
    settle(first, second)
    second.leave()
    epoch, had = first.epoch, first.owned
    lost = shell.beat("A", epoch, owned=had)
    again = shell.beat("A", epoch, owned=had)
    assert again.member_epoch == lost.member_epoch == epoch + 1
    assert assigned(again) == assigned(lost) == Assignment(tasks(0, 0, 1, 2, 3))


def test_a_member_may_own_tasks_of_a_topic_that_was_made_again(shell: StreamsShell) -> None:
    member = Obedient(shell, "A", Topology(epoch=0, subtopologies=[subtopology(0, ["words"])]))
    shell.world.delete("words")
    shell.world.create("words", 2)
    settle(member)
    assert member.owned == Assignment(tasks(0, 0, 1))


# --- delays ---------------------------------------------------------------------------------------


def test_the_first_assignment_waits_for_more_members() -> None:
    settings = SETTINGS._replace(streams_initial_rebalance_delay_ms=3_000)
    shell = StreamsShell(World(words=4, counts=4), of_group=settings)
    for member_id in ("A", "B"):
        joined = shell.join_streams(member_id)
        assert statuses(joined) == [Status.ASSIGNMENT_DELAYED]
        assert (joined.member_epoch, assigned(joined)) == (1, Assignment())
    assert shell.describe_streams().group_state == "Assigning"
    shell.advance(3)
    for member_id in ("A", "B"):
        told = shell.beat(member_id, 1, owned=Assignment())
        given = assigned(told)
        assert given is not None
        assert len(given.active) == 2
        assert statuses(told) == []
    assert shell.describe_streams().group_state == "Stable"


def test_assignments_are_not_computed_faster_than_the_interval() -> None:
    settings = SETTINGS._replace(streams_assignment_interval_ms=1_000)
    shell = StreamsShell(World(words=4, counts=4), of_group=settings)
    shell.join_streams("A")
    joined = shell.join_streams("B")
    assert statuses(joined) == [Status.ASSIGNMENT_DELAYED]
    assert shell.epochs()[:2] == (2, 1)
    shell.advance(1)
    assert statuses(shell.beat("B", 1)) == []
    assert shell.epochs()[:2] == (2, 2)


# --- topics ---------------------------------------------------------------------------------------


def test_internal_topics_are_created() -> None:
    shell = StreamsShell(World(words=3))
    joined = shell.join_streams("A", TWO_PARTS)
    assert statuses(joined) == [Status.MISSING_INTERNAL_TOPICS]
    assert joined.status is not None
    assert "by-word, counts" in joined.status[0].status_detail
    assert assigned(joined) == Assignment()
    assert [(one.name, one.partitions, one.configs) for one in shell.asked] == [
        ("by-word", 3, (("cleanup.policy", "delete"),)),
        ("counts", 3, (("cleanup.policy", "compact"),)),
    ]
    told = shell.beat("A", joined.member_epoch, owned=Assignment())
    assert assigned(told) == Assignment(tasks(0, 0, 1, 2) | tasks(1, 0, 1, 2))
    assert statuses(told) == []


def test_a_group_that_waits_for_topics_is_not_ready() -> None:
    shell = StreamsShell(World())
    joined = shell.join_streams("A")
    assert statuses(joined) == [Status.MISSING_SOURCE_TOPICS]
    assert shell.describe_streams().group_state == "NotReady"
    assert shell.asked == []
    shell.world.create("words", 2)
    assert statuses(shell.beat("A", 1)) == [Status.MISSING_INTERNAL_TOPICS]
    assert len(shell.asked) == 1
    assert assigned(shell.beat("A", shell.epochs()[2]["A"])) == Assignment(tasks(0, 0, 1))


def test_more_partitions_are_more_tasks(shell: StreamsShell) -> None:
    member = Obedient(shell, "A", Topology(epoch=0, subtopologies=[subtopology(0, ["words"])]))
    shell.world.grow("words", 6)
    settle(member)
    assert member.owned.active == tasks(0, *range(6))


def test_a_changelog_with_the_wrong_number_of_partitions_stops_everything() -> None:
    shell = StreamsShell(World(words=4, counts=3))
    joined = shell.join_streams("A")
    assert statuses(joined) == [Status.INCORRECTLY_PARTITIONED_TOPICS]
    assert assigned(joined) == Assignment()


def test_tasks_are_taken_away_when_a_topic_is_deleted(shell: StreamsShell) -> None:
    member = Obedient(shell, "A")
    shell.world.delete("words")
    settle(member)
    assert member.owned == Assignment()
    assert shell.describe_streams().group_state == "NotReady"


# --- topologies -----------------------------------------------------------------------------------


def test_a_topology_cannot_be_changed(shell: StreamsShell) -> None:
    shell.join_streams("A")
    refused = shell.join_streams("B", TWO_PARTS)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Topology updates are not supported yet."


def test_a_member_with_an_older_topology_is_told_so() -> None:
    shell = StreamsShell(World(words=1, counts=1))
    newer = Topology(epoch=3, subtopologies=WORDS.subtopologies)
    shell.join_streams("A", newer)
    joined = shell.join_streams("B")
    assert joined.error_code == ErrorCode.NONE
    assert statuses(joined) == [Status.STALE_TOPOLOGY]


def test_the_order_of_topics_makes_no_other_topology() -> None:
    shell = StreamsShell(World(a=2, b=2))
    for member_id, names, indexes in (("A", ["a", "b"], [0, 1]), ("B", ["b", "a"], [1, 0])):
        topology = Topology(
            epoch=0, subtopologies=[subtopology(0, names, copartitioned=[(indexes, [])])]
        )
        assert shell.join_streams(member_id, topology).error_code == ErrorCode.NONE


# --- standby tasks and processes ------------------------------------------------------------------


def test_a_standby_takes_over() -> None:
    settings = SETTINGS._replace(streams_num_standby_replicas=1)
    shell = StreamsShell(World(words=4, counts=4), of_group=settings)
    first, second = Obedient(shell, "A"), Obedient(shell, "B")
    settle(first, second)
    assert first.owned.standby == second.owned.active
    assert second.owned.standby == first.owned.active
    second.leave()
    settle(first)
    assert first.owned == Assignment(tasks(0, 0, 1, 2, 3))


def test_changed_standbys_make_another_assignment() -> None:
    shell = StreamsShell(World(words=2, counts=2))
    first, second = Obedient(shell, "A"), Obedient(shell, "B")
    settle(first, second)
    assert first.owned.standby == frozenset()
    shell.of_group = SETTINGS._replace(streams_num_standby_replicas=1)
    settle(first, second)
    assert first.owned.standby == second.owned.active


def test_a_task_does_not_move_within_a_process_before_it_is_given_up() -> None:
    """Threads of a process share its state directory: a standby must be closed first."""
    settings = SETTINGS._replace(streams_num_standby_replicas=1)
    shell = StreamsShell(World(words=2, counts=2), of_group=settings)
    members = [Obedient(shell, one, process="one") for one in ("A", "B")]
    members += [Obedient(shell, one, process="two") for one in ("C", "D")]
    settle(*members)
    for task in tasks(0, 0, 1):
        holders = [one for one in members if task in one.owned.active | one.owned.standby]
        assert len({one._options["process"] for one in holders}) == len(holders) == 2


def test_a_member_is_told_which_client_tags_it_lacks() -> None:
    settings = SETTINGS._replace(streams_tags=("zone", "cluster"))
    shell = StreamsShell(World(words=1, counts=1), of_group=settings)
    joined = shell.join_streams("A", tags={"cluster": "a"})
    assert statuses(joined) == [Status.MISSING_CLIENT_TAGS]
    assert joined.status is not None
    assert "assignment: zone." in joined.status[0].status_detail
    assert statuses(shell.join_streams("B", tags={"cluster": "a", "zone": "b"})) == []


# --- static members -------------------------------------------------------------------------------


def test_a_static_member_comes_back_and_keeps_its_tasks(shell: StreamsShell) -> None:
    first, second = Obedient(shell, "A", instance="i"), Obedient(shell, "B")
    settle(first, second)
    had = first.owned
    shell.beat("A", -2, instance="i")
    assert shell.epochs()[2]["A"] == -2
    second.beat()
    back = Obedient(shell, "C", instance="i", process="process of A")
    assert back.owned == had
    late = shell.join_streams("A", instance="i")
    assert late.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    refused = shell.beat("A", 2, instance="i")
    assert refused.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_removed(shell: StreamsShell) -> None:
    first = Obedient(shell, "A", instance="i")
    first.leave(-2)
    shell.advance(SESSION_S)
    assert shell.describe_streams().group_state == "Empty"


# --- interactive queries, shutdown ----------------------------------------------------------------


def test_members_hear_where_the_others_answer_queries(shell: StreamsShell) -> None:
    Obedient(shell, "A", endpoint=("a", 1))
    joined = shell.join_streams("B", endpoint=("b", 2))
    assert joined.partitions_by_user_endpoint is not None
    shown = {
        one.user_endpoint.host: [(each.topic, each.partitions) for each in one.active_partitions]
        for one in joined.partitions_by_user_endpoint
    }
    assert shown == {"a": [("words", [0, 1, 2, 3])], "b": []}
    known = joined.endpoint_information_epoch
    quiet = shell.beat("B", joined.member_epoch, endpoint_epoch=known)
    assert quiet.partitions_by_user_endpoint is None
    shell.beat("A", -1)
    told = shell.beat("B", joined.member_epoch, owned=Assignment(), endpoint_epoch=known)
    assert told.partitions_by_user_endpoint is not None
    assert [one.user_endpoint.host for one in told.partitions_by_user_endpoint] == ["b"]


def test_one_member_ends_the_whole_application(shell: StreamsShell) -> None:
    shell.join_streams("A")
    shell.join_streams("B")
    shell.beat("B", -1, shutdown=True)
    told = shell.beat("A", 1)
    assert statuses(told) == [Status.SHUTDOWN_APPLICATION]
    assert told.status is not None
    assert "member B" in told.status[0].status_detail
    shell.beat("A", -1)
    assert statuses(shell.join_streams("C")) == []


# --- offsets --------------------------------------------------------------------------------------


def commit(shell: StreamsShell, member_id: str, epoch: int, *partitions: int) -> ErrorCode:
    offsets = {("words", index): 1 for index in partitions}
    return commit_error(shell.commit_later(offsets, member_id=member_id, generation=epoch))


def test_offsets_are_fenced_by_the_epoch_in_which_a_member_got_the_task(
    shell: StreamsShell,
) -> None:
    first, second = Obedient(shell, "A"), Obedient(shell, "B")
    settle(first, second)
    kept, got = (sorted(one.owned.active) for one in (first, second))
    assert commit(shell, "A", 2, kept[0].partition) is ErrorCode.NONE
    assert commit(shell, "A", 1, kept[0].partition) is ErrorCode.NONE  # it had it then
    assert commit(shell, "A", 1, got[0].partition) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shell, "B", 1, got[0].partition) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shell, "B", 3, got[0].partition) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shell, "C", 1, got[0].partition) is ErrorCode.UNKNOWN_MEMBER_ID
    after = shell.restart()
    assert commit(after, "A", 1, kept[0].partition) is ErrorCode.NONE
    assert commit(after, "B", 1, got[0].partition) is ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_are_fetched_by_members_of_the_epoch(shell: StreamsShell) -> None:
    shell.join_streams("A")
    for member_id, epoch, error in (
        ("A", 1, ErrorCode.NONE),
        ("A", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("B", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, ErrorCode.NONE),
    ):
        found = shell.shard.offset_fetch(GROUP, None, member_id=member_id, member_epoch=epoch)
        assert found.error_code == error


# --- other types of groups ------------------------------------------------------------------------


def test_an_empty_classic_group_becomes_a_streams_group_and_keeps_its_offsets(
    shell: StreamsShell,
) -> None:
    assert shell.commit(7) is ErrorCode.NONE
    assert shell.join_streams("A").error_code == ErrorCode.NONE
    assert shell.offset() == 7
    after = shell.restart()
    assert after.describe_streams().group_state == "Stable"
    assert after.offset() == 7


def test_a_classic_group_with_members_does_not(shell: StreamsShell) -> None:
    shell.join("")
    refused = shell.join_streams("A")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message is not None
    assert "classic group with members" in refused.error_message


def test_a_classic_member_may_join_when_the_streams_group_is_empty(shell: StreamsShell) -> None:
    shell.join_streams("A")
    assert shell.join("").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    shell.beat("A", -1)
    assert shell.join("").error is ErrorCode.MEMBER_ID_REQUIRED
    assert shell.describe_streams().error_code == ErrorCode.GROUP_ID_NOT_FOUND


# --- what is refused ------------------------------------------------------------------------------

JOIN: dict[str, Any] = {
    "owned": Assignment(),
    "topology": WORDS,
    "process": "p",
    "rebalance_ms": 1000,
}
BY_PATTERN = subtopology(0)
BY_PATTERN.source_topic_regex = ["w.*"]


@pytest.mark.parametrize(
    ("epoch", "changes", "message"),
    [
        (0, {"member_id": ""}, "MemberId can't be empty."),
        (0, {"group": " "}, "GroupId can't be empty."),
        (0, {"instance": ""}, "InstanceId can't be empty."),
        (-3, {}, "MemberEpoch is -3"),
        (-2, {"topology": None}, "InstanceId can't be null."),
        (0, {"rebalance_ms": -1}, "RebalanceTimeoutMs must be provided"),
        (0, {"owned": None}, "ActiveTasks must be empty"),
        (0, {"owned": Assignment(standby=tasks(0, 1))}, "StandbyTasks must be empty"),
        (0, {"topology": None}, "Topology must be non-null"),
        (1, {}, "Topology can only be provided"),
        (
            0,
            {"topology": Topology(epoch=0, subtopologies=[BY_PATTERN])},
            "Regular expressions",
        ),
    ],
)
def test_an_invalid_heartbeat_is_refused(
    shell: StreamsShell, epoch: int, changes: dict[str, Any], message: str
) -> None:
    options = {"member_id": "A", **JOIN, **changes}
    refused = shell.beat(options.pop("member_id"), epoch, **options)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message is not None
    assert message in refused.error_message


@pytest.mark.parametrize(
    "topology",
    [
        Topology(epoch=0, subtopologies=[subtopology(0)]),
        Topology(epoch=0, subtopologies=[subtopology(0, repartitions=[("by-word", 0)])]),
        Topology(epoch=0, subtopologies=[subtopology(0, repartitions=[("by-word", -1)])]),
        Topology(epoch=0, subtopologies=[subtopology(0, ["words"], copartitioned=[([5], [])])]),
    ],
)
def test_a_topology_that_cannot_run_is_refused(shell: StreamsShell, topology: Topology) -> None:
    assert shell.join_streams("A", topology).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_tasks_that_do_not_exist_are_refused(shell: StreamsShell) -> None:
    shell.join_streams("A")
    for owned in (Assignment(tasks(0, 4)), Assignment(tasks(1, 0))):
        assert shell.beat("A", 1, owned=owned).error_code == ErrorCode.INVALID_REQUEST


def test_a_group_has_a_largest_size() -> None:
    shell = StreamsShell(World(words=1, counts=1), streams_max_size=1)
    shell.join_streams("A")
    assert shell.join_streams("B").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shell.join_streams("A").error_code == ErrorCode.NONE


def test_only_members_of_groups_that_exist_are_heard(shell: StreamsShell) -> None:
    assert shell.beat("A", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.beat("A", -1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shell.join_streams("A")
    assert shell.beat("B", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.beat("B", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# --- on command -----------------------------------------------------------------------------------


def test_a_test_ends_sessions_and_rebalances(shell: StreamsShell) -> None:
    first, second = Obedient(shell, "A"), Obedient(shell, "B")
    settle(first, second)
    epoch = shell.epochs()[0]
    shell.carry_out(shell.shard.rebalance(GROUP, "because", shell.now))
    settle(first, second)
    assert shell.epochs() == (epoch + 1, epoch + 1, {"A": epoch + 1, "B": epoch + 1})
    shell.carry_out(shell.shard.end_sessions(GROUP, "B", shell.now))
    assert list(shell.epochs()[2]) == ["A"]
