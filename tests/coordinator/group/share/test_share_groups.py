"""Share groups as a shard runs them: epochs, assignments, share state, and restarts (KIP-932)."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.coordinator.group import (
    Append,
    Ask,
    DeleteShareState,
    Effect,
    GroupConfig,
    GroupShard,
    InitializeShareState,
    Now,
    Record,
    Reply,
)
from minikafka.coordinator.group.topics import Topic, TopicTable
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_groups, join_group, share_group_heartbeat

FLIGHTS, TRAINS = bytes([1] * 16), bytes([2] * 16)
Assigned = dict[bytes, list[int]]


class Topics:
    """The topics of the cluster, which a test may change."""

    def __init__(self, *topics: Topic) -> None:
        self.table = TopicTable(topics)

    def by_name(self, name: str) -> Topic | None:
        return self.table.by_name(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self.table.by_id(topic_id)


class Shell:
    """A shard, its log, and a share coordinator that initialises what it is asked for."""

    def __init__(
        self, topics: Topics, log: list[Record] | None = None, size_max: int = 200
    ) -> None:
        self.topics = topics
        self.log: list[Record] = [] if log is None else log
        self.now = Now(0.0, 1_700_000_000_000)
        self.replies: list[Any] = []
        self.deleted: list[DeleteShareState] = []
        self.initializes = True
        self.append_error = ErrorCode.NONE
        self.shard = GroupShard(
            GroupConfig(share_group_max_size=size_max), new_id=str, topics=topics
        )
        for key, value in self.log:
            self.shard.replay(key, value)
        self.carry_out(self.shard.loaded(self.now))

    def restart(self) -> Shell:
        return Shell(self.topics, self.log)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(_, response):
                    self.replies.append(response)
                case Append(records, write_id) if self.append_error is not ErrorCode.NONE:
                    failed = self.shard.append_failed(write_id, self.append_error, self.now)
                    self.carry_out(failed)
                case Append(records, write_id):
                    self.log.extend(records)
                    self.shard.appended(write_id)
                    self.carry_out(self.shard.committed(write_id, self.now))
                case DeleteShareState():
                    self.deleted.append(effect)
                case _:
                    pass
        for effect in effects:
            if isinstance(effect, InitializeShareState) and self.initializes:
                done = self.shard.share_state_initialized(effect.group_id, effect.topics, self.now)
                self.carry_out(done)

    def pass_time(self, until: float) -> None:
        """Let the timers fire that are due by then."""
        self.now = Now(until, self.now.wall_ms)
        while (deadline := self.shard.deadline()) is not None and deadline <= until:
            self.carry_out(self.shard.expire(self.now))

    def ask(self, request: Any, version: int = 1) -> Any:
        self.carry_out(self.shard.handle(Ask(request, version, "app", "/host", "t"), self.now))
        return self.replies.pop()

    def beat(
        self, member: str, epoch: int, *topics: str, group: str = "g", rack: str | None = None
    ) -> share_group_heartbeat.Response:
        request = share_group_heartbeat.Request(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=list(topics) or None,
        )
        answer: share_group_heartbeat.Response = self.ask(request)
        return answer

    def join(self, member: str, *topics: str) -> share_group_heartbeat.Response:
        """Join, and heartbeat until the partitions are there."""
        answer = self.beat(member, 0, *(topics or ("flights",)))
        assert answer.error_code == ErrorCode.NONE, answer
        return self.beat(member, answer.member_epoch)

    def assigned(self) -> dict[str, Assigned]:
        """What each member has, as ShareGroupDescribe shows it."""
        return {
            member.member_id: {
                one.topic_id: one.partitions for one in member.assignment.topic_partitions
            }
            for member in self.shard.describe_share_group("g").members
        }


@pytest.fixture
def shell() -> Shell:
    return Shell(Topics(Topic("flights", FLIGHTS, 4), Topic("trains", TRAINS, 1)))


def test_a_member_gets_partitions_once_their_state_is_initialised(shell: Shell) -> None:
    shell.initializes = False
    first = shell.beat("m", 0, "flights")
    assert first.assignment == share_group_heartbeat.Assignment(topic_partitions=[])
    done = {FLIGHTS: frozenset(range(4))}
    shell.carry_out(shell.shard.share_state_initialized("g", done, shell.now))
    second = shell.beat("m", first.member_epoch)
    assert second.member_epoch == first.member_epoch + 1
    assert second.assignment is not None
    (assigned,) = second.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (FLIGHTS, [0, 1, 2, 3])
    assert shell.beat("m", second.member_epoch).assignment is None


def test_state_that_could_not_be_initialised_is_asked_for_again(shell: Shell) -> None:
    shell.initializes = False
    first = shell.beat("m", 0, "flights")
    shell.carry_out(shell.shard.share_state_initialized("g", {}, shell.now))
    shell.initializes = True
    shell.beat("m", first.member_epoch)
    assert shell.shard.share_state("g").topics == {FLIGHTS: ("flights", frozenset(range(4)))}


def test_members_divide_partitions_and_share_what_is_too_few(shell: Shell) -> None:
    epochs = {"a": shell.join("a", "flights").member_epoch}
    epochs["b"] = shell.join("b", "flights").member_epoch
    epochs["a"] = shell.beat("a", epochs["a"]).member_epoch
    assert shell.assigned() == {"a": {FLIGHTS: [0, 2]}, "b": {FLIGHTS: [1, 3]}}
    shell.beat("a", epochs["a"], "trains")
    shell.beat("b", shell.beat("b", epochs["b"], "trains").member_epoch)
    shell.beat("a", epochs["a"])
    assert shell.assigned()["b"] == {TRAINS: [0]}


def test_every_subscription_is_served_on_its_own(shell: Shell) -> None:
    shell.join("a", "flights", "trains")
    shell.join("b", "trains")
    shell.beat("a", 2)
    both = {FLIGHTS: [0, 1, 2, 3], TRAINS: [0]}
    assert shell.assigned() == {"a": both, "b": {TRAINS: [0]}}


@pytest.mark.parametrize("ends", ["leaves", "is silent"])
def test_what_a_member_had_goes_to_the_others(shell: Shell, ends: str) -> None:
    shell.join("a")
    epoch = shell.join("b").member_epoch
    if ends == "leaves":
        assert shell.beat("a", -1).member_epoch == -1
    else:
        shell.now = Now(44.0, shell.now.wall_ms)
        shell.beat("b", epoch)
        shell.pass_time(46.0)
    assert shell.beat("a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shell.beat("b", epoch)
    assert shell.assigned() == {"b": {FLIGHTS: [0, 1, 2, 3]}}


def test_a_restarted_coordinator_knows_everything(shell: Shell) -> None:
    shell.join("a", "flights", "trains")
    epoch = shell.join("b").member_epoch
    restarted = shell.restart()
    assert restarted.shard.describe_share_group("g") == shell.shard.describe_share_group("g")
    assert restarted.shard.share_state("g") == shell.shard.share_state("g")
    assert restarted.beat("b", epoch).error_code == ErrorCode.NONE
    restarted.pass_time(50.0)
    assert restarted.shard.describe_share_group("g").group_state == "Empty"


def test_a_topic_that_grows_is_assigned_with_the_next_heartbeats(shell: Shell) -> None:
    epoch = shell.join("a").member_epoch
    shell.topics.table = TopicTable([Topic("flights", FLIGHTS, 5)])
    epoch = shell.beat("a", epoch).member_epoch
    shell.beat("a", epoch)
    assert shell.assigned() == {"a": {FLIGHTS: [0, 1, 2, 3, 4]}}


def test_the_state_of_a_deleted_topic_is_deleted(shell: Shell) -> None:
    epoch = shell.join("a", "flights", "trains").member_epoch
    shell.topics.table = TopicTable([Topic("flights", FLIGHTS, 4)])
    shell.carry_out(shell.shard.on_topics_deleted(["trains"], shell.now))
    assert shell.deleted == [DeleteShareState("g", {TRAINS: frozenset({0})})]
    shell.beat("a", epoch)
    assert shell.assigned() == {"a": {FLIGHTS: [0, 1, 2, 3]}}


def test_epochs_tell_old_members_from_new(shell: Shell) -> None:
    epoch = shell.join("a").member_epoch
    shell.join("b")
    again = shell.beat("a", epoch)
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, epoch + 1)
    repeated = shell.beat("a", epoch)
    assert (repeated.error_code, repeated.member_epoch) == (ErrorCode.NONE, epoch + 1)
    assert repeated.assignment is not None
    for wrong in (epoch - 1, epoch + 2):
        assert shell.beat("a", wrong).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert shell.beat("a", 0, "flights").error_code == ErrorCode.NONE


def test_heartbeats_that_are_refused(shell: Shell) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    assert shell.beat("", 0, "flights").error_code == invalid
    assert shell.beat("m", 0).error_code == invalid
    assert shell.beat("m", -2).error_code == invalid
    assert shell.beat("m", 0, "flights", rack="").error_code == invalid
    assert shell.beat("m", 0, "flights", group="").error_code == ErrorCode.INVALID_GROUP_ID
    assert shell.beat("m", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shell.join("a")
    assert shell.beat("m", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shell.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert shell.beat("m", 0, "flights").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_group_has_no_more_members_than_allowed() -> None:
    shell = Shell(Topics(Topic("flights", FLIGHTS, 1)), size_max=1)
    shell.join("a")
    assert shell.beat("b", 0, "flights").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shell.beat("a", 0, "flights").error_code == ErrorCode.NONE


def test_only_an_empty_group_is_deleted(shell: Shell) -> None:
    shell.join("a")
    request = delete_groups.Request(groups_names=["g"])
    assert shell.ask(request, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert not shell.shard.share_state("g").is_empty
    shell.beat("a", -1)
    assert shell.ask(request, 2).results[0].error_code == ErrorCode.NONE
    for one in (shell, shell.restart()):
        assert one.shard.list_groups() == []
        described = one.shard.describe_share_group("g")
        assert (described.error_code, described.group_state) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Dead",
        )
        assert one.shard.share_state("g").error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_of_one_type(shell: Shell) -> None:
    shell.join("a")
    (listed,) = shell.shard.list_groups(types=["share"])
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Stable", "share")
    request = join_group.Request(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[join_group.Protocol(name="range", metadata=b"")],
    )
    assert shell.ask(request, 9).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    offsets = shell.shard.offset_fetch("g", None)
    assert offsets.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request.group_id = "classic"
    shell.carry_out(shell.shard.handle(Ask(request, 3, "app", "/host", "t"), shell.now))
    refused = shell.beat("m", 0, "flights", group="classic")
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.beat("m", 1, group="classic").error_code == ErrorCode.GROUP_ID_NOT_FOUND
