"""A commit belongs to the membership in which it was started, and so does its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_commit
from minikafka_client import errors
from minikafka_client.core.cluster import Cluster
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.trio_api.commits import Commits
from minikafka_client.types import TopicPartition
from tests.client.plans.scripted import Script

P = TopicPartition("t", 0)


class Network:
    """A coordinator that takes every commit, after the first one has failed."""

    def __init__(self, failure: errors.KafkaError) -> None:
        self.generations: list[int] = []
        self.first_fails = trio.Event()
        self._failure: errors.KafkaError | None = failure

    async def run_plan(self, start: Callable[[Cluster], Plan[Any]]) -> Any:
        failure, self._failure = self._failure, None
        if failure is not None:
            await self.first_fails.wait()
            raise failure
        script = Script(t=[1])
        script.coordinators["g"] = 1
        script.on(offset_commit.Request, self._answer)
        await trio.lowlevel.checkpoint()
        return script.run(start)

    def _answer(self, call: Call) -> offset_commit.Response:
        request = cast("offset_commit.Request", call.request)
        self.generations.append(request.generation_id_or_member_epoch)
        done = offset_commit.ResponsePartition(partition_index=0, error_code=0)
        return offset_commit.Response(
            topics=[offset_commit.ResponseTopic(name="t", partitions=[done])]
        )


class Member:
    """The part of a group's loop that commits use."""

    member_id = "m"
    generation_id = 4
    group_instance_id: str | None = None
    coordinator = 1


class Hall:
    """Commits of a member, and their results."""

    def __init__(self, nursery: trio.Nursery, failure: errors.KafkaError) -> None:
        self.network, self.member = Network(failure), Member()
        self.refused: list[int] = []
        self.ended: list[errors.KafkaError | None] = []
        self._commits = Commits(
            "g",
            cast("Any", self.network),
            cast("Any", nursery),
            cast("Any", self.member),
            is_subscribed=lambda: True,
            on_refused=self.refused.append,
        )

    async def begin(self, offset: int) -> None:
        """Commit an offset; returns when nothing more happens without an event."""
        self._commits.commit_nowait({P: offset}, lambda _, error: self.ended.append(error))
        await trio.testing.wait_all_tasks_blocked()


async def test_a_commit_that_waited_in_line_is_one_of_its_own_generation() -> None:
    async with trio.open_nursery() as nursery:
        hall = Hall(nursery, errors.RequestTimeoutError("the coordinator is away"))
        await hall.begin(5)
        await hall.begin(10)
        hall.member.generation_id = 6  # it was lost, and joined again, perhaps without P
        hall.network.first_fails.set()
        await trio.testing.wait_all_tasks_blocked()
    assert hall.network.generations == [4]
    assert len(hall.ended) == 2


@pytest.mark.parametrize(
    "code",
    [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID],
)
@pytest.mark.parametrize("is_present", [True, False])
async def test_what_is_said_of_an_older_membership_is_not_held_against_the_present_one(
    code: ErrorCode, is_present: bool
) -> None:
    is_fenced = code is ErrorCode.FENCED_INSTANCE_ID
    failure = errors.FencedError("late") if is_fenced else errors.CommitFailedError("late")
    failure.code = code
    async with trio.open_nursery() as nursery:
        hall = Hall(nursery, failure)
        await hall.begin(5)
        if not is_present:
            hall.member.member_id, hall.member.generation_id = "m2", 6
        hall.network.first_fails.set()
        await trio.testing.wait_all_tasks_blocked()
    assert hall.refused == ([code] if is_present else [])
    assert hall.ended == [failure]
