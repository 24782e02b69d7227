"""When a connection gives up a request that is not answered; the clock jumps instead of waiting."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from minikafka.protocol.frames import encode_response
from minikafka.protocol.messages import heartbeat
from minikafka_client.core.wire import Answer
from minikafka_client.errors import RequestTimeoutError
from minikafka_client.options import ConnectionConfig
from minikafka_client.trio_api.connection import Connection

HEARTBEAT = heartbeat.Request(group_id="g", generation_id=1, member_id="m")


class Peer:
    """A connection and a broker that answers on demand."""

    def __init__(self) -> None:
        ours, self.theirs = trio.testing.memory_stream_pair()
        self.connection = Connection(ours, "h:1", ConnectionConfig(request_timeout_ms=30_000))
        self.answers: list[tuple[float, Answer]] = []
        self._next = 0

    def ask(self, timeout_ms: int | None = None) -> None:
        def on_answer(answer: Answer) -> None:
            self.answers.append((trio.current_time(), answer))

        self.connection.submit(HEARTBEAT, 4, on_answer, timeout_ms=timeout_ms)

    async def answer(self) -> None:
        frame = b"".join(encode_response(heartbeat.Response(error_code=0), 4, self._next))
        self._next += 1
        await self.theirs.send_all(frame)


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[Peer, float]]:
    peer = Peer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.connection.run)
        yield peer, trio.current_time()
        peer.connection.close()


async def test_a_request_has_its_whole_time_though_earlier_ones_were_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with connected() as (peer, start):
        for second in (0, 10, 20):
            await trio.sleep_until(start + second)
            peer.ask()
            await peer.answer()
        await trio.sleep_until(start + 25)
        peer.ask()
        await trio.sleep_until(start + 54)
        assert len(peer.answers) == 3
        await trio.sleep_until(start + 56)
        when, error = peer.answers[-1]
        assert when - start == pytest.approx(55)
        assert isinstance(error, RequestTimeoutError)
        assert "no answer to Heartbeat (request 3)" in str(error)
        assert [answer for _, answer in peer.answers[:3]] == [heartbeat.Response(error_code=0)] * 3


async def test_a_hurried_request_is_given_up_before_the_timer_of_the_one_before_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with connected() as (peer, start):
        peer.ask()
        await peer.answer()
        await trio.sleep(1)
        peer.ask(timeout_ms=2_000)
        await trio.sleep(20)
        assert [when - start for when, _ in peer.answers] == [pytest.approx(0), pytest.approx(3)]


async def test_a_connection_without_requests_waits_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with connected() as (peer, start):
        peer.ask()
        await peer.answer()
        await trio.sleep(10_000)
        peer.ask()
        await trio.sleep(100)
        assert [when - start for when, _ in peer.answers] == pytest.approx([0, 10_030])


async def test_requests_behind_one_that_is_overdue_are_given_up_with_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with connected() as (peer, start):
        peer.ask(timeout_ms=10_000)
        peer.ask(timeout_ms=5_000)
        await trio.sleep(100)
        assert [when - start for when, _ in peer.answers] == pytest.approx([10, 10])
        assert all(isinstance(answer, RequestTimeoutError) for _, answer in peer.answers)
