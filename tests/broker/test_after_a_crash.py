"""What a broker finds when the one before it was killed: a copy of its directory while it runs."""

import shutil
from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.broker.harness import WireClient, running_broker, values_of


async def delete_records(client: WireClient, topic: str, offset: int) -> int:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=1000
    )
    answer = await client.ask(request, 2, DeleteRecordsResponse)
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
