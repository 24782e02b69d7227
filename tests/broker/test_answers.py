"""Answers that come later: their order, and what happens when the client does not read."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.handlers.later_answer import LaterAnswer
from minikafka.broker.net.answers import AnswerQueue
from minikafka.broker.transport.transport import FilePayload
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions, fetch, heartbeat, produce
from minikafka.storage.disk import FileSlice, RealDisk
from tests.broker.replicated import replicated, until
from tests.kit.wire import fetch_request, one_batch, produce_request, values_of


async def test_pipelined_requests_are_replicated_together_and_answered_in_order(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2), (1,))
        await cluster.nodes[2].stop()
        client = cluster.nodes[1].connect()
        asked = [
            await client.send(produce_request("t", one_batch(b"%d" % number), acks=-1), 9)
            for number in range(20)
        ]
        await client.send(produce_request("t", one_batch(b"x"), acks=1, partition=1), 9)
        await client.send(fetch_request("t", 0, partition=1), 11)
        question = api_versions.Request(client_software_name="a", client_software_version="1")
        await client.send(question, 3)
        await client.send_bytes(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        partition = cluster.nodes[1].partition()
        await until(lambda: len(partition.commits) == 20)
        assert partition.log.log_end_offset == 20
        await until(lambda: cluster.nodes[1].partition("t", 1).log.log_end_offset == 1)
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        heard = [await client.receive(produce.Response, 9) for _ in range(20)]
        assert [correlation_id for correlation_id, _ in heard] == asked
        offsets = [one.responses[0].partition_responses[0].base_offset for _, one in heard]
        assert offsets == list(range(20))
        _, alone = await client.receive(produce.Response, 9)
        assert alone.responses[0].partition_responses[0].base_offset == 0
        _, fetched = await client.receive(fetch.Response, 11)
        assert values_of(fetched.responses[0].partitions[0]) == [b"x"]
        _, versions = await client.receive(api_versions.Response, 3)
        assert versions.error_code == 0
        _, versions = await client.receive(api_versions.Response, 0)
        assert versions.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_each_request_has_its_own_timeout(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await cluster.nodes[2].stop()
        client = cluster.nodes[1].connect()
        for timeout_ms in (600_000, 20):
            request = produce_request("t", one_batch(b"a"), acks=-1)
            request.timeout_ms = timeout_ms
            await client.send(request, 9)
        partition = cluster.nodes[1].partition()
        await until(lambda: len(partition.commits) == 2)
        await until(lambda: len(partition.commits) == 1)
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        codes: list[int] = []
        for _ in range(2):
            _, answer = await client.receive(produce.Response, 9)
            codes.append(answer.responses[0].partition_responses[0].error_code)
        assert codes == [0, ErrorCode.REQUEST_TIMED_OUT]


async def test_a_connection_has_a_limited_number_of_answers_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.broker.net.connection.LATER_ANSWERS_MAX", 4)
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await cluster.nodes[2].stop()
        client = cluster.nodes[1].connect()
        for _ in range(10):
            await client.send(produce_request("t", one_batch(b"a"), acks=-1), 9)
        partition = cluster.nodes[1].partition()
        await until(lambda: len(partition.commits) == 4)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert partition.log.log_end_offset == 4
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        for number in range(10):
            _, answer = await client.receive(produce.Response, 9)
            assert answer.responses[0].partition_responses[0].base_offset == number


async def test_the_answers_of_a_disconnected_client_are_dropped(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await cluster.nodes[2].stop()
        client = cluster.nodes[1].connect()
        await client.send(produce_request("t", one_batch(b"a"), acks=-1), 9)
        partition = cluster.nodes[1].partition()
        await until(lambda: len(partition.commits) == 1)
        await client.stream.aclose()
        await until(lambda: not partition.commits)


class Later(LaterAnswer):
    """An answer that the test makes ready."""

    def __init__(self, code: int = 0) -> None:
        super().__init__()
        self.response = heartbeat.Response(error_code=code)

    def give_up(self) -> None:
        self.ready()


class SlowTransport:
    """Accepts so many bytes without waiting."""

    peer = "/test"
    moves = 0

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken = b""
        self.is_closed = False

    def send_now(self, parts: list[Any]) -> list[Any]:
        whole = b"".join(parts)
        self.taken += whole[: self.room]
        rest = whole[self.room :]
        self.room = max(0, self.room - len(whole))
        return [rest] if rest else []

    async def send(self, parts: Sequence[Any]) -> None:
        raise NotImplementedError

    async def receive(self) -> bytes:
        raise NotImplementedError

    async def receive_into(self, view: memoryview) -> int:
        raise NotImplementedError

    def has_peer_left(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True


class Queue:
    """A queue, and its callbacks."""

    def __init__(self, room: int) -> None:
        self.transport = SlowTransport(room)
        self.told: list[str] = []
        self.queue = AnswerQueue(
            self.transport, lambda: self.told.append("rest"), lambda: self.told.append("sent")
        )


def test_nothing_overtakes_unsent_bytes() -> None:
    one = Queue(room=5)
    first, second = Later(), Later()
    one.queue.promise(first, 0, 1)
    one.queue.promise(second, 0, 2)
    one.queue.add([b"third"])
    second.ready()
    assert (one.told, len(one.queue)) == ([], 3)
    first.ready()
    assert one.told == ["rest"]
    left = b"".join(one.queue.unsent)
    assert one.transport.taken + left == b"\0\0\0\6\0\0\0\1\0\0\0\0\0\6\0\0\0\2\0\0third"
    late = Later()
    one.queue.promise(late, 0, 4)
    late.ready()
    assert len(one.queue) == 2
    one.queue.hold()
    one.queue.unsent = []
    one.transport.room = 100
    one.queue.release()
    assert one.told == ["rest", "sent"]
    assert not len(one.queue)


def test_an_answer_that_is_already_ready_is_sent_immediately() -> None:
    one = Queue(room=100)
    done = Later()
    done.ready()
    one.queue.promise(done, 0, 1)
    assert one.told == ["sent"]


def test_files_are_left_to_the_task(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    payload = FilePayload(FileSlice(RealDisk().open(str(path)), 0, 7))
    one = Queue(room=100)
    first = Later()
    one.queue.promise(first, 0, 1)
    one.queue.add([b"x", payload])
    first.ready()
    assert one.told == ["rest"]
    assert one.queue.unsent[-1] is payload


def test_late_answers_are_given_up() -> None:
    one = Queue(room=100)
    first, second = Later(), Later()
    first.deadline, second.deadline = 5.0, 3.0
    one.queue.promise(first, 0, 1)
    one.queue.promise(second, 0, 2)
    assert one.queue.deadline == 3.0
    one.queue.give_up(4.0)
    assert (second.is_ready, first.is_ready, one.told) == (True, False, [])
    one.queue.give_up(5.0)
    assert one.told == ["sent"]
    assert one.queue.deadline == float("inf")


def test_an_answer_that_cannot_be_encoded_ends_its_connection_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = Queue(room=100)
    broken = Later(code=2**40)
    one.queue.promise(broken, 0, 1)
    broken.ready()
    assert one.transport.is_closed
    assert "bug" in caplog.text


def test_a_later_answer_must_implement_give_up() -> None:
    with pytest.raises(NotImplementedError):
        LaterAnswer().give_up()
