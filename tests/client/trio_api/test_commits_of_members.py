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


class Config:
    default_api_timeout_ms = 60_000


class Network:
    """A coordinator that takes every commit, after the first one has failed."""

    config = Config()

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
    """The part of a member's machine that commits use."""

    member_id = "m"
    generation_id = 4
    group_instance_id: str | None = None
    coordinator = 1
    uses_member_epochs = True
    owned = frozenset({P})


class Group:
    """The part of a group's loop that commits use."""

    def __init__(self) -> None:
        self.member = Member()
        self.has_answer = trio.Event()

    async def next_answer(self) -> None:
        await self.has_answer.wait()

    async def answer(self) -> None:
        """A heartbeat is answered; returns when nothing more happens without an event."""
        has_answer, self.has_answer = self.has_answer, trio.Event()
        has_answer.set()
        await trio.testing.wait_all_tasks_blocked()


class Hall:
    """Commits of a member, and their results."""

    def __init__(self, nursery: trio.Nursery, failure: errors.KafkaError) -> None:
        self.network, self.group = Network(failure), Group()
        self.member = self.group.member
        self.refused: list[int] = []
        self.ended: list[errors.KafkaError | None] = []
        self._commits = Commits(
            "g",
            cast("Any", self.network),
            cast("Any", nursery),
            cast("Any", self.group),
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


def stale_epoch() -> errors.KafkaError:
    failure = errors.CommitFailedError("the epoch has moved on")
    failure.code = ErrorCode.STALE_MEMBER_EPOCH
    return failure


async def test_a_commit_under_a_stale_epoch_is_repeated_under_the_next_one() -> None:
    async with trio.open_nursery() as nursery:
        hall = Hall(nursery, stale_epoch())
        hall.network.first_fails.set()
        await hall.begin(5)
        assert hall.refused == [ErrorCode.STALE_MEMBER_EPOCH]  # which asks the coordinator
        await hall.group.answer()  # to a heartbeat from before
        hall.member.generation_id = 5
        await hall.group.answer()
    assert hall.network.generations == [5]
    assert hall.ended == [None]


async def test_a_partition_that_has_moved_on_is_not_committed_under_a_later_epoch() -> None:
    failure = stale_epoch()
    async with trio.open_nursery() as nursery:
        hall = Hall(nursery, failure)
        hall.network.first_fails.set()
        await hall.begin(5)
        hall.member.generation_id, hall.member.owned = 5, frozenset()
        await hall.group.answer()
    assert hall.network.generations == []
    assert hall.ended == [failure]


async def test_an_epoch_that_stays_stale_is_an_error() -> None:
    failure = stale_epoch()
    async with trio.open_nursery() as nursery:
        hall = Hall(nursery, failure)
        hall.network.first_fails.set()
        await hall.begin(5)
        for _ in range(3):
            await hall.group.answer()
    assert hall.ended == [failure]
