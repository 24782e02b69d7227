"""Starts after a kill, simulated with a copy of a running broker's directory."""

import shutil
from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_records as delete_records_api
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, values_of


async def delete_records(client: WireClient, topic: str, offset: int) -> int:
    asked = delete_records_api.Partition(partition_index=0, offset=offset)
    request = delete_records_api.Request(
        topics=[delete_records_api.Topic(name=topic, partitions=[asked])], timeout_ms=1000
    )
    answer = await client.ask(request, 2, delete_records_api.Response)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    return answer.topics[0].partitions[0].low_watermark


async def test_deleted_records_do_not_come_back(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "before") as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        for value in (b"a", b"b", b"c"):
            await client.produce("t", value)
        assert await delete_records(client, "t", 2) == 2
        shutil.copytree(tmp_path / "before", tmp_path / "after")
    async with running_broker(tmp_path / "after") as under_test:
        client = under_test.connect()
        assert (await client.fetch("t", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert values_of(await client.fetch("t", 2)) == [b"c"]


async def test_a_replica_that_lost_a_segment_did_not_stop_cleanly(tmp_path: Path) -> None:
    """Its registration must not say that nothing is lost (KIP-966)."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"x")
    async with running_broker(tmp_path) as under_test:
        assert under_test.broker.lifecycle.previous_epoch >= 0
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"")
    async with running_broker(tmp_path) as under_test:
        assert under_test.broker.lifecycle.previous_epoch == -1
