"""File descriptors: how they are divided, and what happens when none are left."""

import errno
import os
import resource
from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka.broker.handlers import fetch
from minikafka.broker.system.descriptors import descriptor_budget, divide, raise_limit
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch as fetch_api
from minikafka.protocol.records import encode_batch
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, fetch_of, values_of


@pytest.mark.parametrize("limit", [16, 64, 256, 1024, 20_000, 1 << 20])
def test_logs_and_connections_leave_something_of_the_limit(limit: int) -> None:
    budget = divide(limit)
    assert budget.files > 0
    assert budget.connections > 0
    assert budget.files + budget.connections < limit


@pytest.fixture
def restored_limit() -> Generator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("restored_limit")
def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
    small = descriptor_budget()
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    assert descriptor_budget() >= small


async def fetch_all(client: WireClient, partitions: int) -> dict[int, list[bytes | None]]:
    request = fetch_of("t", dict.fromkeys(range(partitions), 0), max_bytes=50_000_000)
    answer = await client.ask(request, 11, fetch_api.Response)
    assert {one.error_code for one in answer.responses[0].partitions} == {ErrorCode.NONE}
    return {one.partition_index: values_of(one) for one in answer.responses[0].partitions}


async def test_an_answer_holds_few_files_and_copies_little_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_FILES_PER_ANSWER_MAX", 2)
    monkeypatch.setattr(fetch, "_COPIED_SIZE_BYTES_MAX", 250)
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=6)
        for number in range(6):
            await client.produce("t", b"v" * 40, partition=number)
        size = len(encode_batch([(None, b"v" * 40, (), 1000)]))
        assert 2 * size < 250 < 3 * size
        found = await fetch_all(client, 6)
        assert [number for number, values in found.items() if values] == [0, 1, 2, 3]


@pytest.mark.usefixtures("restored_limit")
async def test_without_descriptors_requests_are_refused_and_partitions_stay_online(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        assert (await client.produce("t", b"before")).error_code == ErrorCode.NONE
        under_test.broker.directory.files.make_room()
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # No descriptor below the limit is free: the lowest free one is at it.
        lowest_free = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        refused = await client.produce("t", b"refused")
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert os.strerror(errno.EMFILE) in (refused.error_message or "")
        assert (await client.fetch("t", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        assert values_of(await client.fetch("t", 0)) == [b"before"]
        assert (await client.produce("t", b"after")).base_offset == 1


@pytest.mark.usefixtures("restored_limit")
async def test_unused_files_are_closed_to_make_room(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=4)
        for number in range(3):
            await client.produce("t", b"open", partition=number)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Every descriptor below the limit is taken, some of them by unused files.
        fillers = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(fillers) + 1, hard))
        assert (await client.produce("t", b"x", partition=3)).error_code == ErrorCode.NONE
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        for filler in fillers:
            os.close(filler)
