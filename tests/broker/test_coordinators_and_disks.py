"""Coordinators whose partition fails for a moment: pending writes are settled."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.broker import Broker
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_fetch
from minikafka.storage.log import FlushWork
from tests.broker.handlers.transactional_wire import (
    GROUP,
    add,
    add_offsets,
    begun,
    commit_offset,
    end,
    find,
    init,
    stable_values,
    write,
)
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient

OK = ErrorCode.NONE
SETTINGS = (
    "log.flush.interval.messages=1",
    "transaction.state.log.num.partitions=1",
    "offsets.topic.num.partitions=1",
)
FailNext = Callable[[str], None]


@pytest.fixture
def fail_next(monkeypatch: pytest.MonkeyPatch) -> FailNext:
    """``fail_next(topic)``: the next fsync of a partition of it fails."""
    doomed: list[str] = []
    run = FlushWork.run

    def fail_or_run(work: FlushWork) -> None:
        if doomed and any(doomed[0] in one.path for one, _ in work.segments):
            doomed.clear()
            raise OSError(errno.EIO, "Input/output error")
        return run(work)

    monkeypatch.setattr(FlushWork, "run", fail_or_run)
    return doomed.append


async def reopened(broker: Broker, topic: str) -> None:
    """Wait until the partition has failed, and recover it."""
    log = broker.partitions[topic, 0].log
    while not log.is_offline:
        await trio.testing.wait_all_tasks_blocked()
    await broker.maintenance.reopen_offline()


async def ended(client: WireClient, producer: tuple[int, int]) -> None:
    """Retry the commit until it succeeds."""
    code: int = ErrorCode.NOT_COORDINATOR
    while code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        code = (await end(client, producer)).error_code
    assert code == OK


async def test_a_decision_that_could_not_be_synced_is_repeated(
    tmp_path: Path, fail_next: FailNext
) -> None:
    async with running_broker(tmp_path, *SETTINGS) as under_test:
        client, other = under_test.connect(), under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        assert await add(client, producer, ("t", 0)) == {("t", 0): OK}
        assert await write(client, producer, b"x") is OK
        fail_next("__transaction_state")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ended, other, producer)
            await reopened(under_test.broker, "__transaction_state")
        while (await stable_values(client))[0] < 2:
            pass
        assert await stable_values(client) == (2, 2, 0)
        assert (await init(client)).error_code == OK


async def test_offsets_whose_marker_could_not_be_synced_count(
    tmp_path: Path, fail_next: FailNext
) -> None:
    async with running_broker(tmp_path, *SETTINGS) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await find(client, GROUP, 0)
        producer = await begun(client)
        assert await add_offsets(client, producer) is OK
        assert await commit_offset(client, producer, 7) is OK
        fail_next("__consumer_offsets")
        await ended(client, producer)
        await reopened(under_test.broker, "__consumer_offsets")
        topic = offset_fetch.RequestTopic(name="t", partition_indexes=[0])
        asked = offset_fetch.Request(group_id=GROUP, topics=[topic], require_stable=True)
        code: int = ErrorCode.UNSTABLE_OFFSET_COMMIT
        while code in (ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            answer = await client.ask(asked, 7, offset_fetch.Response)
            code = answer.error_code or answer.topics[0].partitions[0].error_code
        assert answer.topics[0].partitions[0].committed_offset == 7
