"""What refusals, losses and late answers do to a consumer's membership."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import heartbeat, join_group, leave_group, sync_group
from minikafka_client import errors
from minikafka_client.core.group_member import State
from minikafka_client.core.membership import Answered, Left, Polled, Send
from tests.client.core.group_world import Consumer, World, joining, partitions, stable, state_of

# --- answers that the coordinator of one broker does not give -----------------------------------


def answer_heartbeat(world: World, consumer: Consumer, code: ErrorCode) -> None:
    effects = consumer.member.expire(consumer.now + 3.1)
    [beat] = [each for each in effects if isinstance(each, Send)]
    assert isinstance(beat.request, heartbeat.Request)
    world.shell.advance(3.1)
    consumer.feed(Answered(beat.token, heartbeat.Response(error_code=code)))


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_up_and_the_membership_continues(
    code: ErrorCode,
) -> None:
    world, consumer = stable(t=2)
    answer_heartbeat(world, consumer, code)
    assert consumer.member.coordinator is None
    world.advance(0.3)
    assert consumer.wants_coordinator
    consumer.fail_to_find_coordinator(errors.ConnectionLostError("not yet"))
    world.advance(0.5)
    world.settle()
    assert consumer.member.generation_id == 1
    assert consumer.revoked == consumer.lost == 0


def test_a_rebalance_that_is_known_already_is_no_news() -> None:
    world, consumer = stable(t=2)
    answer_heartbeat(world, consumer, ErrorCode.REBALANCE_IN_PROGRESS)
    assert state_of(consumer) is State.REVOKING
    answer_heartbeat(world, consumer, ErrorCode.REBALANCE_IN_PROGRESS)
    assert state_of(consumer) is State.REVOKING
    assert len(consumer.actions) == 1


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_heartbeat_that_is_not_known_loses_everything(code: ErrorCode) -> None:
    world, consumer = stable(t=2)
    before = consumer.member.member_id
    answer_heartbeat(world, consumer, code)
    assert (consumer.member.member_id == before) == (code is ErrorCode.ILLEGAL_GENERATION)
    world.settle()
    assert consumer.lost == 1
    assert consumer.holding == partitions("t", 0, 1)


def test_a_coordinator_that_is_loading_is_asked_again_later() -> None:
    world, consumer = stable(t=2)
    answer_heartbeat(world, consumer, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert state_of(consumer) is State.STABLE
    assert consumer.member.generation_id == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
)
def test_what_cannot_be_cured_reaches_the_application(code: ErrorCode) -> None:
    world, consumer = stable(t=2)
    answer_heartbeat(world, consumer, code)
    assert isinstance(consumer.error, errors.BrokerError)
    assert consumer.error.code is code
    assert state_of(consumer) is State.FAILED
    consumer.subscribe("t")
    world.settle()
    assert state_of(consumer) is State.STABLE


def test_a_group_that_must_not_be_looked_up_is_a_failure() -> None:
    world = World(t=1)
    consumer = world.join("a", "range")
    consumer.fail_to_find_coordinator(errors.BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert state_of(consumer) is State.FAILED
    assert consumer.member.deadline() is None


def unanswered() -> tuple[World, Consumer]:
    world, consumer = joining(t=1)
    consumer.unanswered.clear()
    assert state_of(consumer) is State.JOINING
    return world, consumer


def answer(consumer: Consumer, response: object) -> None:
    consumer.feed(Answered(consumer.member.requests.last_token, response))  # type: ignore[arg-type]  # a response


def joined(**changes: object) -> join_group.Response:
    fields: dict[str, object] = {
        "error_code": 0,
        "generation_id": 5,
        "protocol_name": "range",
        "leader": "other",
        "member_id": "me",
        "members": [],
    }
    return join_group.Response(**(fields | changes))  # type: ignore[arg-type]  # any field


def test_a_broker_that_is_too_old_is_a_failure() -> None:
    _world, consumer = unanswered()
    answer(consumer, errors.UnsupportedByBrokerError("too old"))
    assert isinstance(consumer.error, errors.UnsupportedByBrokerError)


def test_a_rebalance_during_sync_joins_again() -> None:
    _world, consumer = unanswered()
    answer(consumer, joined())
    assert state_of(consumer) is State.SYNCING
    answer(
        consumer, sync_group.Response(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b"")
    )
    assert state_of(consumer) is State.JOINING


def test_a_coordinator_that_loads_during_a_join_is_asked_again_later() -> None:
    world, consumer = unanswered()
    answer(consumer, joined(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert state_of(consumer) is State.UNJOINED
    world.settle()


def test_an_unreadable_assignment_is_a_failure() -> None:
    _world, consumer = unanswered()
    answer(consumer, joined())
    answer(consumer, sync_group.Response(error_code=0, assignment=b"\0"))
    assert "unreadable assignment" in str(consumer.error)


def test_an_unreadable_subscription_is_a_failure_of_the_leader() -> None:
    _world, consumer = unanswered()
    member = join_group.Member(member_id="me", metadata=b"\0\1\xff")
    answer(consumer, joined(leader="me", members=[member]))
    assert "the subscription of member 'me' cannot be read" in str(consumer.error)


def test_an_assignor_that_was_not_offered_is_a_failure() -> None:
    _world, consumer = unanswered()
    answer(consumer, joined(leader="me", protocol_name="uniform"))
    assert "chose the assignor 'uniform'" in str(consumer.error)


def test_a_leader_that_came_back_to_a_stable_group_decides_nothing() -> None:
    _world, consumer = unanswered()
    answer(consumer, joined(leader="me", skip_assignment=True))
    assert state_of(consumer) is State.SYNCING


def test_an_answer_to_a_join_that_was_given_up_is_ignored() -> None:
    _world, consumer = unanswered()
    token = consumer.member.requests.last_token
    consumer.leave()
    consumer.feed(Answered(token, joined()))
    assert state_of(consumer) is State.IDLE
    assert consumer.member.generation_id == -1


def test_leaving_gives_the_coordinator_a_reason() -> None:
    world, consumer = stable(t=2)
    effects = consumer.member.handle(Left("bye"), consumer.now)
    [goodbye] = [each for each in effects if isinstance(each, Send)]
    assert isinstance(goodbye.request, leave_group.Request)
    assert goodbye.request.members[0].reason == "bye"
    del world


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_refused_commit_means_the_same_as_a_heartbeat(code: ErrorCode) -> None:
    world, consumer = stable(t=2)
    consumer.run(consumer.member.commit_refused(code, consumer.now))
    world.settle()
    assert consumer.lost == (code is ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_commit_refused_for_other_reasons_changes_nothing() -> None:
    _world, consumer = stable(t=2)
    consumer.run(consumer.member.commit_refused(ErrorCode.REBALANCE_IN_PROGRESS, consumer.now))
    assert state_of(consumer) is State.STABLE


def test_nothing_is_due_before_anything_was_subscribed() -> None:
    consumer = Consumer(World(), "a", ("range",))
    assert consumer.member.deadline() is None
    consumer.feed(Polled())
    assert state_of(consumer) is State.IDLE
