"""A member of KIP-848's protocol, event by event, against a naive coordinator."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.consumer_group_member import State
from minikafka_client.core.membership import Answered, Revoke, Send, Subscribed
from minikafka_client.errors import (
    FencedError,
    KafkaError,
    UnsupportedByBrokerError,
)
from tests.client.core.consumer_group_world import Application, World, partitions, stable
from tests.kit.examples import examples


def sent(application: Application) -> int:
    """How many heartbeats it has sent."""
    return len(application.said)


def test_one_member_gets_everything_and_says_that_it_has_it() -> None:
    world, member = stable(t=3)
    assert member.holding == partitions("t", 0, 1, 2)
    assert member.member.generation_id == world.coordinator.group_epoch
    [join, told] = member.said
    assert (join.member_epoch, join.topic_partitions, join.rebalance_timeout_ms) == (0, [], 60_000)
    assert (join.rack_id, join.server_assignor) == ("rack", "uniform")
    assert join.subscribed_topic_names == ["t"]
    assert told.topic_partitions is not None
    assert [each.partitions for each in told.topic_partitions] == [[0, 1, 2]]
    assert (told.subscribed_topic_names, told.server_assignor, told.rack_id) == (None, None, None)


def test_a_heartbeat_without_news_says_nothing_at_the_interval_of_the_answer() -> None:
    world, member = stable(t=1)
    before = sent(member)
    world.advance(4.9)
    assert sent(member) == before
    world.advance(0.2)
    beat = member.said[-1]
    assert sent(member) == before + 1
    assert beat.topic_partitions is beat.subscribed_topic_names is None
    assert beat.subscribed_topic_regex is None
    assert beat.rebalance_timeout_ms == -1


def test_members_share_and_inherit() -> None:
    world, first = stable(t=4)
    second = world.join()
    world.settle()
    assert (len(first.holding), len(second.holding)) == (2, 2)
    assert (first.revoked, first.lost) == (1, 0)
    first.leave()
    world.applications.remove(first)
    world.settle()
    assert second.holding == partitions("t", 0, 1, 2, 3)


def test_a_partition_is_not_given_back_before_the_application_has_released_it() -> None:
    world, first = stable(t=2)
    second = world.join()
    for _ in range(20):  # nothing but the first application's poll is missing
        world.advance(1.0)
        for each in world.applications:
            each.recover()
            each.serve()
            each.receive()
        second.poll()
    assert first.state is State.RECONCILING
    assert [type(each) for each in first.actions] == [Revoke]
    assert first.member.owned == first.holding == partitions("t", 0, 1)
    assert second.holding == set()
    epoch = first.member.generation_id
    first.poll()
    assert first.member.generation_id == epoch < world.coordinator.group_epoch
    world.settle()
    assert second.holding == partitions("t", 1)


def test_what_it_keeps_is_read_all_the_time() -> None:
    world, first = stable(t=4)
    world.join()
    for _ in range(20):
        world.advance(1.0)
        for each in world.applications:
            each.recover()
            each.serve()
            each.receive()
            each.poll()
        assert first.holding >= partitions("t", 0, 2)


def test_a_new_assignment_during_a_revocation_replaces_the_one_before() -> None:
    world, first = stable(t=2)
    second = world.join()
    world.applications[1].recover()
    second.serve()
    second.receive()
    world.advance(5.0)
    first.serve()
    first.receive()
    assert first.state is State.RECONCILING
    second.leave()
    world.applications.remove(second)
    world.settle()
    assert first.holding == partitions("t", 0, 1)
    assert first.revoked == 1


def test_a_topic_that_is_known_by_its_id_only_is_read_when_its_name_is() -> None:
    world, member = stable(t=1)
    world.coordinator.create("u", 1)
    member.subscribe("t", "u")
    member.serve()
    member.receive()
    member.poll()
    assert member.wants_ids == {world.coordinator.topics["u"][0]}
    assert member.holding == partitions("t", 0)
    world.settle()
    assert member.holding == partitions("t", 0) | partitions("u", 0)


def test_what_is_taken_back_before_its_name_was_known_is_disowned() -> None:
    world, member = stable(t=1)
    world.coordinator.create("u", 1)
    member.subscribe("t", "u")
    member.serve()
    member.receive()
    assert member.wants_ids == {world.coordinator.topics["u"][0]}
    world.coordinator.create("u", 1)  # another one, before the name of the first was known
    world.settle()
    assert member.holding == partitions("t", 0) | partitions("u", 0)


def test_a_recreated_topic_is_another_one() -> None:
    world, member = stable(t=1)
    world.coordinator.create("t", 2)
    world.settle()
    assert member.holding == partitions("t", 0, 1)
    assert member.revoked == 1


def test_a_changed_subscription_is_said_at_once() -> None:
    world, member = stable(t=1)
    world.coordinator.create("u", 1)
    before = sent(member)
    member.subscribe("u")
    assert sent(member) == before + 1
    assert member.said[-1].subscribed_topic_names == ["u"]
    world.settle()
    assert member.holding == partitions("u", 0)


def test_a_pattern_goes_to_the_broker_and_is_taken_back() -> None:
    world, member = stable(t=1)
    effects = member.member.handle(Subscribed((), "t.*"), world.now)
    [send] = [each for each in effects if isinstance(each, Send)]
    assert send.version_min == 1
    member.run(effects)
    assert member.said[-1].subscribed_topic_regex == "t.*"
    assert member.said[-1].subscribed_topic_names == []
    member.serve()
    member.receive()
    member.feed(Subscribed(("t",)))
    assert member.said[-1].subscribed_topic_regex == ""
    assert member.said[-1].subscribed_topic_names == ["t"]


def test_a_lost_answer_makes_the_next_heartbeat_say_everything() -> None:
    world, member = stable(t=2)
    world.advance(5.0)
    member.serve()
    member.lose_connection()
    assert member.member.coordinator is None
    world.advance(0.2)
    member.recover()
    full = member.said[-1]
    assert full.member_epoch == member.member.generation_id > 0
    assert full.rebalance_timeout_ms == 60_000
    assert full.subscribed_topic_names == ["t"]
    assert full.topic_partitions is not None
    world.settle()
    assert (member.revoked, member.lost) == (0, 0)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_was_removed_loses_its_partitions_and_joins_with_its_id(
    code: ErrorCode,
) -> None:
    world, member = stable(t=2)
    before = member.member.member_id
    world.advance(5.0)
    member.answer(code)
    assert (member.state, member.member.generation_id) == (State.LOST, -1)
    world.coordinator.remove(before)
    assert member.holding == partitions("t", 0, 1)  # until it polls
    world.settle()
    assert (member.lost, member.revoked) == (1, 0)
    assert member.member.member_id == before
    assert member.holding == partitions("t", 0, 1)


def test_what_is_lost_during_a_revocation_is_released_once() -> None:
    world, member = stable(t=2)
    world.join()
    second = world.applications[1]
    second.recover()
    second.serve()
    second.receive()
    world.advance(5.0)
    member.serve()
    member.receive()
    assert member.state is State.RECONCILING
    world.advance(5.0)
    member.answer(ErrorCode.UNKNOWN_MEMBER_ID)
    world.coordinator.remove(member.member_id)
    world.settle()
    assert (member.revoked, member.lost) == (1, 1)


def test_a_member_that_does_not_poll_leaves_and_comes_back_when_it_does() -> None:
    world, member = stable(t=1)
    for _ in range(61):
        world.advance(1.0)
        member.serve()
        member.receive()
    assert member.said[-1].member_epoch == -1
    assert world.coordinator.members == {}
    world.advance(100.0)
    assert member.holding == partitions("t", 0)
    member.poll()
    assert (member.holding, member.lost) == (set(), 1)
    world.settle()
    assert member.holding == partitions("t", 0)


def test_a_static_member_says_that_it_will_be_back_and_gets_what_it_had() -> None:
    world = World(t=4)
    static = world.join(instance_id="host-a")
    other = world.join()
    world.settle()
    had, epoch = set(static.holding), world.coordinator.group_epoch
    static.leave()
    assert static.said[-1].member_epoch == -2
    world.applications.remove(static)
    back = world.join(instance_id="host-a")
    assert back.member_id != static.member_id
    world.coordinator.expire(world.now)
    world.settle()
    assert len(back.holding) == len(had) == len(other.holding)
    assert world.coordinator.group_epoch == epoch  # nobody else has noticed


@pytest.mark.parametrize("code", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_a_second_member_of_one_instance_stops(code: ErrorCode) -> None:
    world, member = stable(t=1)
    world.advance(5.0)
    member.answer(code)
    assert member.state is State.FAILED
    assert isinstance(member.error, FencedError) == (code is ErrorCode.FENCED_INSTANCE_ID)
    assert str(member.error).rpartition("; ")[2].startswith("stop the other member")
    member.poll()
    assert (member.holding, member.lost) == (set(), 1)
    assert member.member.deadline() is None


def test_a_member_that_failed_joins_again_when_it_subscribes() -> None:
    world, member = stable(t=1)
    world.advance(5.0)
    member.answer(ErrorCode.GROUP_MAX_SIZE_REACHED)
    world.coordinator.remove(member.member_id)
    member.subscribe("t")
    assert member.state is State.LOST  # until the application has released what it had
    world.settle()
    assert member.holding == partitions("t", 0)
    assert member.lost == 1


def test_a_broker_without_the_protocol_is_an_error_for_the_application() -> None:
    world = World(t=1)
    member = world.join()
    member.recover()
    [asked] = member.unanswered
    error: KafkaError = UnsupportedByBrokerError("the broker has no ConsumerGroupHeartbeat API")
    member.unanswered.clear()
    member.feed(Answered(asked.token, error))
    assert member.error is error
    assert member.state is State.FAILED


def test_a_refused_commit_asks_the_coordinator_where_the_member_stands() -> None:
    world, member = stable(t=1)
    before = sent(member)
    member.run(member.member.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, world.now))
    assert sent(member) == before + 1
    member.serve()
    member.receive()
    member.run(member.member.commit_refused(ErrorCode.NOT_COORDINATOR, world.now))
    assert member.wants_coordinator
    world.settle()
    member.run(member.member.commit_refused(ErrorCode.OFFSET_METADATA_TOO_LARGE, world.now))
    assert member.unanswered == type(member.unanswered)()


# --- everything together -------------------------------------------------------------------------


class Groups(RuleBasedStateMachine):
    """Members, losses and time in any order; a partition never has two readers."""

    world: World

    @initialize(members=st.integers(1, 3))
    def begin(self, members: int) -> None:
        self.world = World(t=4, u=2)
        for _ in range(members):
            self.world.join("t", "u")

    def one(self, number: int) -> Application:
        return self.world.applications[number % len(self.world.applications)]

    @rule(number=st.integers(0, 5))
    def poll(self, number: int) -> None:
        self.one(number).poll()

    @rule(number=st.integers(0, 5))
    def serve(self, number: int) -> None:
        self.one(number).serve()

    @rule(number=st.integers(0, 5))
    def receive(self, number: int) -> None:
        self.one(number).receive()

    @rule(number=st.integers(0, 5))
    def recover(self, number: int) -> None:
        self.one(number).recover()

    @rule(number=st.integers(0, 5))
    def everything_but_the_application(self, number: int) -> None:
        self.one(number).recover()
        self.one(number).serve()
        self.one(number).receive()

    @rule(number=st.integers(0, 5))
    def lose_connection(self, number: int) -> None:
        self.one(number).lose_connection()

    @rule(seconds=st.sampled_from([0.2, 1.0, 5.0, 5.0, 30.0, 70.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(number=st.integers(0, 5))
    def is_removed(self, number: int) -> None:
        self.world.coordinator.remove(self.one(number).member_id)

    @rule(number=st.integers(0, 5), topics=st.sampled_from([("t",), ("u",), ("t", "u"), ("v",)]))
    def subscribe(self, number: int, topics: tuple[str, ...]) -> None:
        self.one(number).subscribe(*topics)

    @rule(name=st.sampled_from(["t", "v"]), count=st.integers(1, 5))
    def create(self, name: str, count: int) -> None:
        self.world.coordinator.create(name, count)

    @rule(count=st.integers(3, 6))
    def grow(self, count: int) -> None:
        self.world.coordinator.grow("u", count)

    @rule(number=st.integers(0, 5))
    def learn(self, number: int) -> None:
        self.one(number).learn()

    @precondition(lambda self: len(self.world.applications) < 5)
    @rule()
    def join(self) -> None:
        self.world.join("t", "u")

    @precondition(lambda self: len(self.world.applications) > 1)
    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        leaving = self.one(number)
        leaving.leave()
        self.world.applications.remove(leaving)

    @invariant()
    def one_reader_for_each_partition(self) -> None:
        if hasattr(self, "world"):
            self.world.check_disjoint()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()
            assert not any(each.error for each in self.world.applications)


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
