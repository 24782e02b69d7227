"""A consumer's membership, event by event, with our broker's coordinator on the other side."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from minikafka.protocol.messages import join_group
from minikafka_client.core.assignors.registry import AssignorName
from minikafka_client.core.group_member import State
from minikafka_client.core.membership import Revoke, Send, Subscribed
from minikafka_client.errors import FencedError
from tests.client.core.group_world import Consumer, World, joining, partitions, stable, state_of

EVERY_ASSIGNOR = pytest.mark.parametrize(
    "assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"]
)


@EVERY_ASSIGNOR
def test_one_member_gets_everything(assignor: AssignorName) -> None:
    world = World(t=3)
    consumer = world.join("a", assignor)
    world.settle()
    assert consumer.holding == partitions("t", 0, 1, 2)
    assert consumer.member.generation_id == 1


@EVERY_ASSIGNOR
def test_members_share_and_inherit(assignor: AssignorName) -> None:
    world = World(t=4)
    first = world.join("a", assignor)
    world.settle()
    second = world.join("b", assignor)
    world.settle()
    assert (len(first.holding), len(second.holding)) == (2, 2)
    world.check_all_assigned("t")
    first.leave()
    world.settle()
    assert second.holding == partitions("t", 0, 1, 2, 3)


def test_an_eager_member_lets_go_of_everything_before_it_joins() -> None:
    world = World(t=2)
    first = world.join("a", "range")
    world.settle()
    world.join("b", "range")
    world.consumers[1].recover()
    world.consumers[1].receive()
    world.advance(3.1)  # the next heartbeat reports the rebalance
    first.receive()
    assert state_of(first) is State.REVOKING
    assert [type(action) for action in first.actions] == [Revoke]
    assert first.holding == partitions("t", 0, 1)  # until the application asks for records
    first.poll()
    assert first.holding == set()
    assert state_of(first) is State.JOINING
    world.settle()
    assert first.revoked == 1


def test_a_cooperative_member_keeps_what_stays_and_joins_again_for_what_goes() -> None:
    world = World(t=4)
    first = world.join("a", "cooperative-sticky")
    world.settle()
    kept = set(first.holding)
    world.join("b", "cooperative-sticky")
    world.consumers[1].recover()
    for _ in range(20):
        world.advance(0.5)
        for consumer in world.consumers:
            consumer.recover()
            consumer.receive()
        assert len(first.holding) >= 2
        first.poll()
        world.consumers[1].poll()
    world.settle()
    assert first.holding < kept
    assert (first.revoked, first.lost) == (1, 0)
    world.check_all_assigned("t")


def test_heartbeats_continue_while_the_application_is_busy() -> None:
    world, consumer = stable(t=1)
    for _ in range(50):  # 50 s without a poll, five sessions long
        world.advance(1.0)
        consumer.receive()
    assert state_of(consumer) is State.STABLE
    assert consumer.member.generation_id == 1


def test_who_does_not_poll_leaves_and_comes_back_when_it_does() -> None:
    world, consumer = stable(t=1)
    for _ in range(61):
        world.advance(1.0)
        consumer.receive()
    assert consumer.member.generation_id == -1
    assert world.state == "Empty"
    world.advance(100.0)
    assert consumer.holding == partitions("t", 0)  # it has not polled since
    consumer.poll()
    assert (consumer.holding, consumer.lost) == (set(), 1)
    world.settle()
    assert consumer.holding == partitions("t", 0)


def test_a_member_that_the_group_forgot_loses_its_partitions() -> None:
    world, consumer = stable(t=2)
    before = consumer.member.member_id
    consumer.lose_connection()
    world.shell.advance(30.0)  # the member itself was asleep
    consumer.run(consumer.member.expire(consumer.now))
    consumer.recover()
    world.settle()
    assert consumer.lost == 1
    assert consumer.member.member_id != before
    assert consumer.holding == partitions("t", 0, 1)


def test_a_coordinator_that_restarts_still_knows_its_members() -> None:
    world, consumer = stable(t=2)
    world.restart_coordinator()
    world.settle()
    for _ in range(5):
        world.advance(3.0)
        consumer.recover()
        consumer.receive()
    assert (consumer.lost, consumer.revoked) == (0, 0)
    assert consumer.member.generation_id == 1


def test_a_lost_join_is_repeated_under_the_same_member_id() -> None:
    world, consumer = joining(t=1)
    consumer.receive()  # MEMBER_ID_REQUIRED, then JoinGroup with the id
    member_id = consumer.member.member_id
    assert member_id
    consumer.lose_connection()
    assert state_of(consumer) is State.UNJOINED
    world.settle()
    assert consumer.member.member_id == member_id


def test_a_leader_waits_for_the_metadata_of_topics_it_does_not_know() -> None:
    world = World(t=1, u=2)
    first = world.join("a", "range")
    world.settle()
    second = world.join("b", "range", topics=("u",))
    world.settle()
    assert first.holding == partitions("t", 0)
    assert second.holding == partitions("u", 0, 1)


def test_a_leader_that_loses_its_coordinator_while_it_waits_joins_again() -> None:
    world, consumer = joining(t=1)
    world.advance(0.1)
    consumer.receive()
    world.advance(0.1)
    consumer.receive()
    assert state_of(consumer) is State.LEADING
    consumer.member.coordinator = None
    consumer.learn(frozenset({"t"}))
    assert state_of(consumer) is State.UNJOINED
    world.settle()


def test_a_topic_that_grows_is_shared_out_again() -> None:
    world, consumer = stable(t=1)
    world.partition_counts["t"] = 3
    consumer.learn(frozenset({"t"}))
    world.settle()
    assert consumer.holding == partitions("t", 0, 1, 2)
    generation = consumer.member.generation_id
    consumer.learn(frozenset({"t"}))
    assert state_of(consumer) is State.STABLE
    assert consumer.member.generation_id == generation


def test_a_topic_that_does_not_exist_yet_is_read_when_it_does() -> None:
    world, consumer = stable()
    assert consumer.holding == set()
    world.partition_counts["t"] = 1
    consumer.learn(frozenset({"t"}))
    world.settle()
    assert consumer.holding == partitions("t", 0)


def test_a_changed_subscription_rebalances() -> None:
    world, consumer = stable(t=1, u=1)
    consumer.subscribe("u")
    world.settle()
    assert consumer.holding == partitions("u", 0)


def test_a_subscription_that_changes_during_a_join_is_not_forgotten() -> None:
    world, consumer = joining(t=1, u=1)
    assert state_of(consumer) is State.JOINING
    consumer.subscribe("t", "u")
    world.settle()
    assert consumer.holding == partitions("t", 0) | partitions("u", 0)


def test_a_static_member_does_not_say_goodbye_and_gets_back_what_it_had() -> None:
    world = World(t=4)
    static = Consumer(world, "a", ("range",), instance_id="host-a")
    world.consumers.append(static)
    static.subscribe("t")
    other = world.join("b", "range")
    world.settle()
    had = set(static.holding)
    static.leave()
    world.consumers.remove(static)
    back = Consumer(world, "a2", ("range",), instance_id="host-a")
    world.consumers.append(back)
    back.subscribe("t")
    world.settle()
    assert back.holding == had
    assert other.revoked == 0
    assert back.member.group_instance_id == "host-a"


def test_a_static_member_that_was_replaced_gets_an_error_and_stops() -> None:
    world = World(t=1)
    first = Consumer(world, "a", ("range",), instance_id="one")
    second = Consumer(world, "b", ("range",), instance_id="one")
    for consumer in (first, second):
        world.consumers.append(consumer)
        consumer.subscribe("t")
        for _ in range(10):
            consumer.recover()
            consumer.receive()
            consumer.poll()
            world.advance(0.1)
    world.advance(3.5)
    first.receive()
    assert isinstance(first.error, FencedError)
    assert state_of(first) is State.FAILED
    assert first.member.deadline() is None


# --- everything together -------------------------------------------------------------------------


@EVERY_ASSIGNOR
@pytest.mark.parametrize("seed", range(12))
def test_a_random_group_never_shares_a_partition_and_settles(
    assignor: AssignorName, seed: int
) -> None:
    dice = random.Random(seed)
    world = World(t=5, u=2)
    for number in range(3):
        world.join(f"c{number}", assignor, topics=dice.choice([("t",), ("u",), ("t", "u")]))
    for step in range(250):
        something_happens(world, dice, step, assignor)
        world.check_disjoint()
    for consumer in world.consumers:
        consumer.subscribe("t", "u")
    world.settle()
    world.check_disjoint()
    world.check_all_assigned("t", "u")


def something_happens(world: World, dice: random.Random, step: int, assignor: AssignorName) -> None:
    consumer = dice.choice(world.consumers)
    weights: dict[Callable[[], object], float] = {
        consumer.receive: 3.0,
        consumer.poll: 3.0,
        consumer.recover: 2.0,
        lambda: world.advance(dice.choice([0.2, 1.0, 4.0])): 2.0,
        consumer.lose_connection: 1.0,
        lambda: world.advance(70.0): 0.2,
        world.restart_coordinator: 0.3,
    }
    if len(world.consumers) < 5:
        weights[lambda: world.join(f"d{step}", assignor)] = 1.0
    if len(world.consumers) > 2:
        weights[lambda: leave(world, consumer)] = 0.5
    dice.choices(list(weights), list(weights.values()))[0]()


def leave(world: World, consumer: Consumer) -> None:
    consumer.leave()
    world.consumers.remove(consumer)


def test_join_requests_carry_the_settings() -> None:
    world = World(t=1)
    consumer = Consumer(world, "a", ("sticky", "range"))
    consumer.feed()
    effects = consumer.member.handle(Subscribed(("t",)), 0.0)
    consumer.run(effects)
    consumer.member.coordinator = 1
    [join] = [each for each in consumer.member.expire(0.1) if isinstance(each, Send)]
    assert isinstance(join.request, join_group.Request)
    assert [each.name for each in join.request.protocols] == ["sticky", "range"]
    assert join.request.session_timeout_ms == 10_000
    assert join.request.rebalance_timeout_ms == 60_000
    assert join.timeout_ms == 65_000
