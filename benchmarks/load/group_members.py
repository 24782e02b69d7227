"""Members of a consumer group (KIP-848) that only send heartbeats; one more joins and leaves.

They do what Java's consumer does: a heartbeat when the broker's interval is over, and another one
as soon as an assignment has been taken over. All are in this process, each on its own connection.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_heartbeat as api
from minikafka.protocol.messages import find_coordinator
from minikafka.testing.wire import TrioWire, Wire
from minikafka_client.sync import AdminClient

from .job import serve_one_job

TIMEOUT_SECONDS = 120.0
_RETRY_SECONDS = 0.1
_JOINS, _LEAVES = 0, -1
_NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)

Partitions = frozenset[tuple[bytes, int]]


@dataclass(frozen=True, kw_only=True)
class MembersJob:
    """What to do.

    Attributes:
        bootstrap: the broker's ``HOST:PORT``.
        topic: what all of them read.
        partitions: how many it has.
        members: how many are there before another one joins.
        warm_up: how often one joins and leaves before the clock counts.
        joins: how often one joins while it does.
    """

    bootstrap: str
    topic: str
    partitions: int
    members: int
    warm_up: int
    joins: int


@dataclass(frozen=True, kw_only=True)
class MembersOutcome:
    """The time from each timed join until every member had its part.

    Attributes:
        seconds: in order.
        heartbeats: how many all members have sent.
    """

    seconds: list[float]
    heartbeats: int


class Group:
    """Who owns what."""

    def __init__(self, job: MembersJob) -> None:
        self.job = job
        self.group_id = f"group-of-{job.topic}"
        self.owned: dict[str, Partitions] = {}
        self.heartbeats = 0
        self.interval_seconds = 0.0
        self._changed = trio.Event()

    def has_changed(self) -> None:
        """Have `until_even` look again."""
        self._changed.set()
        self._changed = trio.Event()

    def is_even(self, members: int) -> bool:
        """Whether each of so many members has its part, and all partitions have an owner."""
        parts = [len(each) for each in self.owned.values()]
        least, rest = divmod(self.job.partitions, members)
        return sorted(parts) == [least] * (members - rest) + [least + 1] * rest

    async def until_even(self, members: int) -> None:
        """Wait until `is_even`."""
        while not self.is_even(members):
            await self._changed.wait()


class Member:
    """One member, from its first heartbeat to its last."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._id = str(uuid.uuid4())
        self._epoch = _JOINS
        self._has_news = True

    async def run(self, wait_seconds: float = 0.0) -> None:
        """Take part until cancelled."""
        await trio.sleep(wait_seconds)
        host, _, port = self._group.job.bootstrap.rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            wire = TrioWire(stream)
            try:
                while True:
                    await self._beat(wire)
            finally:
                with trio.CancelScope(shield=True):
                    self._epoch = _LEAVES
                    await self._ask(wire)
                    del self._group.owned[self._id]
                    self._group.has_changed()

    async def _beat(self, wire: TrioWire) -> None:
        began = trio.current_time()
        answer = await self._ask(wire)
        if answer.error_code in _NOT_YET:
            await trio.sleep(_RETRY_SECONDS)
            return
        if answer.error_code:
            raise RuntimeError(f"{ErrorCode(answer.error_code).name}: {answer.error_message}")
        self._epoch = answer.member_epoch
        owned = self._group.owned.setdefault(self._id, frozenset())
        self._has_news = False
        if answer.assignment is not None:
            target = frozenset(
                (topic.topic_id, index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            )
            self._has_news = target != owned
            self._group.owned[self._id] = target
            self._group.has_changed()
        self._group.interval_seconds = answer.heartbeat_interval_ms / 1000
        if not self._has_news:
            await trio.sleep_until(began + answer.heartbeat_interval_ms / 1000)

    async def _ask(self, wire: TrioWire) -> api.Response:
        self._group.heartbeats += 1
        joins = self._epoch == _JOINS
        request = api.Request(
            group_id=self._group.group_id,
            member_id=self._id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=300_000 if joins else -1,
            subscribed_topic_names=[self._group.job.topic] if joins else None,
            topic_partitions=self._owned() if self._has_news else None,
        )
        await wire.send(request, 1)
        _, answer = await wire.receive(api.Response, 1)
        return answer

    def _owned(self) -> list[api.TopicPartitionsRequest]:
        topics: dict[bytes, list[int]] = {}
        for topic_id, index in self._group.owned.get(self._id, ()):
            topics.setdefault(topic_id, []).append(index)
        return [
            api.TopicPartitionsRequest(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in topics.items()
        ]


def _wait_for_coordinator(job: MembersJob, group_id: str) -> None:
    request = find_coordinator.Request(coordinator_keys=[group_id])
    with Wire(job.bootstrap) as wire:
        while wire.ask(request, 4, find_coordinator.Response).coordinators[0].error_code:
            pass
    with AdminClient(job.bootstrap) as admin:
        admin.list_group_offsets(group_id)


async def _join_and_leave(group: Group) -> float:
    """One more joins; returns the seconds until all have their part, when it has left again."""
    members = group.job.members
    # At any time between the heartbeats of the others.
    await trio.sleep(random.uniform(1, 2) * group.interval_seconds)
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(Member(group).run)
        await group.until_even(members + 1)
        seconds = trio.current_time() - began
        nursery.cancel_scope.cancel()
    await group.until_even(members)
    return seconds


async def _measure(job: MembersJob) -> MembersOutcome:
    group = Group(job)
    await trio.to_thread.run_sync(_wait_for_coordinator, job, group.group_id)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(TIMEOUT_SECONDS):
            nursery.start_soon(Member(group).run)
            await group.until_even(1)
            # Not all at the same moment, so that their heartbeats are spread later.
            for _ in range(job.members - 1):
                nursery.start_soon(Member(group).run, random.uniform(0, group.interval_seconds))
            await group.until_even(job.members)
        seconds: list[float] = []
        for _ in range(job.warm_up + job.joins):
            with trio.fail_after(TIMEOUT_SECONDS):
                seconds.append(await _join_and_leave(group))
        nursery.cancel_scope.cancel()
    return MembersOutcome(seconds=seconds[job.warm_up :], heartbeats=group.heartbeats)


def measure(job: MembersJob) -> MembersOutcome:
    """Run the members."""
    return trio.run(_measure, job)


if __name__ == "__main__":
    serve_one_job(MembersJob, measure)
