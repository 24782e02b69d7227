"""How often leaders are asked to write markers, whatever they answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from minikafka.broker.marker_sending import MarkerSender
from minikafka.broker.rpc import Reply, RpcFailure, RpcLostError, RpcUnreachableError
from minikafka.broker.transaction_markers import MarkerServer
from minikafka.coordinator.transaction import Now, SendMarkers
from minikafka.protocol.errors import ErrorCode
from tests.broker.harness import running_broker

P0, P1 = ("t", 0), ("t", 1)
DECISION = SendMarkers("job-1", 7, 3, 5, 2, True, (P0, P1))
OK, FENCED = int(ErrorCode.NONE), int(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
HERE = 1


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


class Scene:
    """A coordinator's broker among others, which answer when the test says so.

    Attributes:
        asked: who was asked for which places, and how to answer.
        leaders: of both partitions.
        unreachable: whom nobody can ask.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.asked: list[tuple[int, list[list[Any]], Callable[[Any], None]]] = []
        self.leaders = [2, 2]
        self.unreachable: set[int] = set()
        self._news = trio.Event()
        self.shard = Shard()
        self.shards: dict[int, Any] = {0: self.shard}
        runtime = SimpleNamespace(
            shards=self.shards,
            nursery=nursery,
            now=lambda: Now(0.0, 0),
            carry_out=lambda _number, effects: None if not effects else pytest.fail(str(effects)),
        )
        broker = SimpleNamespace(node_id=HERE, interconnect=SimpleNamespace(peers=self), image=self)
        self.sender = MarkerSender(cast("Any", broker), cast("Any", runtime))

    @property
    def topics(self) -> dict[str, Any]:
        return {"t": SimpleNamespace(partitions=[SimpleNamespace(leader=n) for n in self.leaders])}

    def client(self, node_id: int) -> Any:
        def ask(operation: str, fields: Any, *, on_answer: Callable[[Any], None]) -> None:
            assert operation == "write-markers"
            if node_id in self.unreachable:
                raise RpcUnreachableError("it is gone")
            self.asked.append((node_id, fields[-1], on_answer))
            self._news.set()

        return SimpleNamespace(ask=ask)

    async def next_question(self) -> tuple[int, list[list[Any]], Callable[[Any], None]]:
        """Let the time pass until somebody is asked."""
        while not self.asked:
            self._news = trio.Event()
            await self._news.wait()
        return self.asked.pop(0)


@asynccontextmanager
async def scene() -> AsyncGenerator[Scene]:
    async with trio.open_nursery() as nursery:
        found = Scene(nursery)
        nursery.start_soon(found.sender.run)
        yield found
        nursery.cancel_scope.cancel()


async def test_all_leaders_are_asked_at_once_and_the_last_answer_ends_the_round(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.leaders = [2, 3]
        under_test.sender.send(0, DECISION)
        first, second = await under_test.next_question(), await under_test.next_question()
        assert (first[0], first[1], second[0], second[1]) == (2, [["t", 0]], 3, [["t", 1]])
        first[2](Reply((OK,)))
        assert under_test.shard.written == []
        second[2](Reply((OK,)))
        assert under_test.shard.written == [P0, P1]
        await trio.sleep(60)
        assert under_test.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        RpcLostError("the connection ended"),
        Reply(()),
        Reply((OK,)),
        Reply((OK, 9_999)),
        Reply(None),
        Reply((OK, int(ErrorCode.NOT_LEADER_OR_FOLLOWER))),
    ],
)
async def test_what_nobody_has_written_for_certain_is_asked_for_again(
    answer: Any, autojump_clock: trio.testing.MockClock
) -> None:
    async with scene() as under_test:
        under_test.sender.send(0, DECISION)
        _, _, respond = await under_test.next_question()
        respond(answer)
        _, places, respond = await under_test.next_question()
        assert places[-1] == ["t", 1]
        respond(Reply((OK,) * len(places)))
        assert sorted(under_test.shard.written) == [P0, P1]


async def test_a_leader_that_is_silent_is_given_up_for_its_successor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.sender.send(0, DECISION)
        silent, _, late = await under_test.next_question()
        under_test.leaders = [3, 3]
        await trio.sleep(9.9)
        assert under_test.asked == []
        await trio.sleep(3)
        assert len(under_test.asked) == 1
        successor, _, respond = await under_test.next_question()
        assert (silent, successor) == (2, 3)
        late(Reply((OK, OK)))  # it means nothing any more
        assert under_test.shard.written == []
        respond(Reply((OK, OK)))
        assert under_test.shard.written == [P0, P1]


async def test_who_cannot_be_reached_is_asked_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.unreachable.add(2)
        under_test.sender.send(0, DECISION)
        await trio.sleep(5)
        assert under_test.asked == []
        under_test.unreachable.clear()
        _, _, respond = await under_test.next_question()
        respond(Reply((OK, OK)))
        assert under_test.shard.written == [P0, P1]


async def test_a_coordinator_that_is_fenced_or_resigns_asks_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.sender.send(0, DECISION)
        _, _, respond = await under_test.next_question()
        respond(Reply((OK, FENCED)))
        await trio.sleep(60)
        assert under_test.asked == []
        under_test.shard.written.clear()
        under_test.sender.send(0, DECISION)
        _, _, respond = await under_test.next_question()
        under_test.shards[0] = Shard()
        respond(Reply((OK, OK)))
        await trio.sleep(60)
        assert (under_test.asked, under_test.shard.written) == ([], [])


async def test_partitions_that_are_deleted_count_as_written(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scene() as under_test:
        under_test.leaders = []
        under_test.sender.send(0, DECISION)
        await trio.sleep(1)
        assert under_test.shard.written == [P0, P1]


@pytest.mark.parametrize(
    "fields",
    [None, (), (7, 3, 5, 2, "yes", ()), (7, 3, 5, 2, True, (("t",),)), (7, 3, 5, 2, True, ("t0",))],
)
def test_requests_for_markers_that_are_none_are_refused(fields: Any) -> None:
    server = MarkerServer(cast("Any", None))
    with pytest.raises(RpcFailure, match="Malformed"):
        server.serve(2, fields, (), lambda *_: None)


@pytest.mark.parametrize(
    "fields", [None, (), ("job-1", 7, 3, (("t", 0),), 1), ("job-1", 7, 3, (("t",),), True)]
)
async def test_requests_for_confirmation_that_are_none_are_refused(
    fields: Any, tmp_path: Path
) -> None:
    async with running_broker(tmp_path) as under_test:
        transactions = under_test.broker.transactions
        with pytest.raises(RpcFailure, match="Malformed"):
            transactions.serve_confirm(2, fields, (), lambda *_: None)


async def test_a_confirmation_is_refused_by_who_does_not_coordinate(tmp_path: Path) -> None:
    answers: list[Any] = []
    async with running_broker(tmp_path) as under_test:
        await under_test.connect().create_topic("t", partitions=1)
        ask = ("job-1", 7, 3, (("t", 0),), True)
        under_test.broker.transactions.serve_confirm(2, ask, (), lambda *one: answers.append(one))
    assert answers == [(int(ErrorCode.NOT_COORDINATOR), ())]
