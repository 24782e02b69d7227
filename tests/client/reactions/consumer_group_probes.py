"""The same for members with KIP-848's protocol; see `probes.py` for the words, with two more.

lose     what the member owned is lost, and it joins again with its id
ask      a heartbeat is sent at once, whose answer tells where the member stands
"""

from __future__ import annotations

from collections.abc import Callable

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import find_coordinator, offset_commit, offset_fetch
from minikafka_client.core.consumer_group_member import State
from minikafka_client.errors import CommitFailedError, FencedError, KafkaError
from minikafka_client.plans.group_offsets import (
    Committer,
    MemberEpoch,
    commit_offsets,
    member_offsets,
)
from minikafka_client.trio_api.fetch_loop import may_pass
from minikafka_client.types import TopicPartition
from tests.client.core.consumer_group_world import Application, World, stable
from tests.client.plans.scripted import Script
from tests.client.reactions.probes import told

WHERE = TopicPartition("t", 0)
NO_ERROR = ErrorCode.NONE


def _after_heartbeat(world: World, member: Application, code: ErrorCode) -> str:
    """What a member does next."""
    if member.error is not None:
        assert member.state is State.FAILED
        return "stop" if told(member.error, code) == "fail" else "?"
    if member.state is State.LOST:
        member.poll()
        assert (member.lost, member.said[-1].member_epoch) == (1, 0)
        return "lose"
    is_at_once = bool(member.unanswered or member.wants_coordinator)
    world.advance(1.0)
    assert member.unanswered or member.wants_coordinator
    if member.wants_coordinator:
        return "find"
    assert member.said[-1].subscribed_topic_names == ["t"], "it says everything"
    return "again" if is_at_once else "retry"


def join(code: ErrorCode) -> str:
    """The answer to the first heartbeat."""
    world = World(t=1)
    member = world.join()
    member.recover()
    if code is NO_ERROR:
        world.settle()
        return "ok"
    member.answer(code)
    return _after_heartbeat(world, member, code)


def heartbeat(code: ErrorCode) -> str:
    """The answer to a heartbeat of a member that owns something."""
    world, member = stable(t=1)
    world.advance(5.0)
    if code is NO_ERROR:
        world.settle()
        return "ok"
    member.answer(code)
    return _after_heartbeat(world, member, code)


def commit(code: ErrorCode) -> str:
    """One partition's error in an OffsetCommit answer to a member."""

    def answer(given: ErrorCode) -> offset_commit.Response:
        partition = offset_commit.ResponsePartition(partition_index=0, error_code=given)
        topic = offset_commit.ResponseTopic(name="t", partitions=[partition])
        return offset_commit.Response(topics=[topic])

    committer = Committer("g", "m", 3, None, 2, uses_member_epochs=True)
    script = Script(t=[1]).on(offset_commit.Request, answer(code), answer(NO_ERROR))
    try:
        script.run(lambda cluster: commit_offsets(cluster, committer, {WHERE: 5}))
    except (CommitFailedError, FencedError):
        world, member = stable(t=1)
        member.run(member.member.commit_refused(code, world.now))
        return "ask" if member.unanswered else "fail"
    except KafkaError as error:
        return told(error, code)
    if not script.pauses:
        return "ok"
    return "find" if script.asked(find_coordinator.Request) else "retry"


def stored(code: ErrorCode) -> str:
    """The error of a whole OffsetFetch answer to a member."""

    def answer(given: ErrorCode) -> offset_fetch.Response:
        partition = offset_fetch.GroupPartition(
            partition_index=0, committed_offset=5, metadata="", error_code=0
        )
        topic = offset_fetch.ResponseGroupTopic(name="t", partitions=[partition])
        group = offset_fetch.ResponseGroup(
            group_id="g", topics=[] if given else [topic], error_code=given
        )
        return offset_fetch.Response(groups=[group])

    script = Script(t=[1]).on(offset_fetch.Request, answer(code), answer(NO_ERROR))
    member = MemberEpoch("m", 3)
    try:
        script.run(
            lambda cluster: member_offsets(
                cluster, "g", [WHERE], member=member, require_stable=False
            )
        )
    except KafkaError as error:
        # The consumer's loop asks again, as whom the member is then (`trio_api.fetch_loop`).
        return "next" if may_pass(error) else told(error, code)
    return "find" if script.pauses else "ok"


PROBES: dict[str, Callable[[ErrorCode], str]] = {
    "Join": join,
    "Beat": heartbeat,
    "Commit": commit,
    "Stored": stored,
}
"""By the columns of the table: each function is named for its answer."""
