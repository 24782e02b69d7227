"""How markers are sent to leaders, for every kind of answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

from minikafka.broker.coordinators.marker_sender import MarkerSender
from minikafka.broker.rpc import operations
from minikafka.broker.rpc.codec import Reply
from minikafka.broker.rpc.errors import RpcLostError, RpcMalformedError, RpcUnreachableError
from minikafka.coordinator.transaction import Now, SendMarkers
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import PartitionRecord, TopicRecord
from minikafka.protocol.errors import ErrorCode
from tests.kit.in_process import running_broker

P0, P1 = ("t", 0), ("t", 1)
DECISION = SendMarkers("job-1", 7, 3, 5, 2, True, (P0, P1))
OK, FENCED = ErrorCode.NONE, ErrorCode.TRANSACTION_COORDINATOR_FENCED
HERE = 1
TOPIC_ID = b"t" * 16


def codes(*error_codes: ErrorCode) -> Reply[operations.WriteMarkersResult]:
    """A leader's answer."""
    return Reply(operations.WriteMarkersResult(error_codes))


class Shard:
    """Notes which markers are written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int]] = []

    def markers_written(
        self, transactional_id: str, producer_id: int, epoch: int, places: Any, now: Now
    ) -> list[Any]:
        assert (transactional_id, producer_id, epoch) == ("job-1", 7, 3)
        self.written += places
        return []


class Runtime:
    """The shards of one coordinator."""

    def __init__(self, nursery: trio.Nursery, shard: Shard) -> None:
        self.nursery = nursery
        self.shards = {0: shard}

    def now(self) -> Now:
        return Now(0.0, 0)

    def carry_out(self, number: int, effects: list[Any]) -> None:
        assert not effects


class Peer:
    """The connection to one broker."""

    def __init__(self, scene: Scene, node_id: int) -> None:
        self._scene = scene
        self._node_id = node_id

    def ask(self, operation: Any, request: Any, *, on_answer: Callable[[Any], None]) -> None:
        assert operation is operations.WRITE_MARKERS
        if self._node_id in self._scene.unreachable:
            raise RpcUnreachableError("it is gone")
        self._scene.asked.append((self._node_id, request.partitions, on_answer))
        self._scene.news.set()


class Scene:
    """A coordinator's broker among others, which answer when the test says so.

    Attributes:
        asked: the brokers asked, their partitions, and how to answer.
        unreachable: brokers that cannot be asked.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.asked: list[tuple[int, Any, Callable[[Any], None]]] = []
        self.unreachable: set[int] = set()
        self.news = trio.Event()
        self.shard = Shard()
        self.image = MetadataImage()
        self.lead(2, 2)
        self.runtime = Runtime(nursery, self.shard)
        self.sender = MarkerSender(
            HERE,
            self,
            cast("Any", self.runtime),
            cast("Any", None),  # nothing is led here, so nothing is written here
            cast("Any", self),
        )

    @property
    def shards(self) -> dict[int, Shard]:
        return self.runtime.shards

    def lead(self, *leaders: int) -> None:
        """Let brokers lead the partitions of the topic, which exists only if there are some."""
        self.image = MetadataImage()
        if leaders:
            self.image.replay(TopicRecord("t", TOPIC_ID))
        for number, leader in enumerate(leaders):
            self.image.replay(PartitionRecord(TOPIC_ID, number, (leader,), (leader,), leader, 0, 0))

    def client(self, node_id: int) -> Peer:
        return Peer(self, node_id)

    async def next_question(self) -> tuple[int, Any, Callable[[Any], None]]:
        """Let time pass until a leader is asked."""
        while not self.asked:
            self.news = trio.Event()
            await self.news.wait()
        return self.asked.pop(0)


@asynccontextmanager
async def scene() -> AsyncGenerator[Scene]:
    async with trio.open_nursery() as nursery:
        found = Scene(nursery)
        nursery.start_soon(found.sender.run)
        yield found
        nursery.cancel_scope.cancel()


async def test_all_leaders_are_asked_together_and_the_last_answer_ends_the_round(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.lead(2, 3)
        under_test.sender.send(0, DECISION)
        first, second = await under_test.next_question(), await under_test.next_question()
        assert (first[0], first[1], second[0], second[1]) == (2, (P0,), 3, (P1,))
        first[2](codes(OK))
        assert under_test.shard.written == []
        second[2](codes(OK))
        assert under_test.shard.written == [P0, P1]
        await trio.sleep(60)
        assert under_test.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        RpcLostError("the connection ended"),
        codes(),
        codes(OK),
        codes(OK, ErrorCode.UNKNOWN_SERVER_ERROR),
        RpcMalformedError("the answer makes no sense"),
        codes(OK, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_markers_with_an_unknown_outcome_are_sent_again(
    answer: Any, autojump_clock: trio.testing.MockClock
) -> None:
    async with scene() as under_test:
        under_test.sender.send(0, DECISION)
        _, _, respond = await under_test.next_question()
        respond(answer)
        _, places, respond = await under_test.next_question()
        assert places[-1] == P1
        respond(codes(*[OK] * len(places)))
        assert sorted(under_test.shard.written) == [P0, P1]


async def test_a_leader_that_is_silent_is_given_up_for_its_successor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.sender.send(0, DECISION)
        silent, _, late = await under_test.next_question()
        under_test.lead(3, 3)
        await trio.sleep(9.9)
        assert under_test.asked == []
        await trio.sleep(3)
        assert len(under_test.asked) == 1
        successor, _, respond = await under_test.next_question()
        assert (silent, successor) == (2, 3)
        late(codes(OK, OK))  # it is ignored now
        assert under_test.shard.written == []
        respond(codes(OK, OK))
        assert under_test.shard.written == [P0, P1]


async def test_an_unreachable_leader_is_asked_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.unreachable.add(2)
        under_test.sender.send(0, DECISION)
        await trio.sleep(5)
        assert under_test.asked == []
        under_test.unreachable.clear()
        _, _, respond = await under_test.next_question()
        respond(codes(OK, OK))
        assert under_test.shard.written == [P0, P1]


async def test_a_fenced_or_resigned_coordinator_stops_asking(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.sender.send(0, DECISION)
        _, _, respond = await under_test.next_question()
        respond(codes(OK, FENCED))
        await trio.sleep(60)
        assert under_test.asked == []
        under_test.shard.written.clear()
        under_test.sender.send(0, DECISION)
        _, _, respond = await under_test.next_question()
        under_test.shards[0] = Shard()
        respond(codes(OK, OK))
        await trio.sleep(60)
        assert (under_test.asked, under_test.shard.written) == ([], [])


async def test_partitions_that_are_deleted_count_as_written(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.lead()
        under_test.sender.send(0, DECISION)
        await trio.sleep(1)
        assert under_test.shard.written == [P0, P1]


async def test_a_confirmation_is_refused_by_a_broker_that_does_not_coordinate(
    tmp_path: Path,
) -> None:
    answers: list[Any] = []
    async with running_broker(tmp_path) as under_test:
        await under_test.connect().create_topic("t", partitions=1)
        ask = operations.ConfirmTransaction("job-1", 7, 3, (operations.Place("t", 0),), adds=True)

        def respond(message: Any, attachments: Any) -> None:
            answers.append((message, attachments))

        under_test.broker.transactions.serve_confirm(2, ask, (), respond)
    assert answers == [((ErrorCode.NOT_COORDINATOR,), ())]
