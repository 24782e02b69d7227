"""Markers are written even while other markers wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.coordinators import marker_sender as marker_sending
from minikafka.metadata.records import NO_LEADER
from minikafka.protocol.errors import ErrorCode
from tests.broker.handlers.transactional_wire import add, begun, end, stable_values, write
from tests.kit.in_process import running_broker


async def test_a_partition_without_a_leader_blocks_no_other_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_sending, "_DECISIONS_AT_ONCE_MAX", 1)
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producers = {name: await begun(client, transactional_id=name) for name in ("one", "two")}
        for number, (name, producer) in enumerate(producers.items()):
            await add(client, producer, ("t", number), transactional_id=name)
            code = await write(client, producer, b"x", partition=number, transactional_id=name)
            assert code is ErrorCode.NONE
        topic = under_test.broker.image.topics["t"]
        before = topic.partitions[0]
        topic.partitions[0] = before._replace(leader=NO_LEADER)
        for name, producer in producers.items():
            ended = await end(client, producer, transactional_id=name)
            assert ended.error_code == ErrorCode.NONE
        while (await stable_values(client, 1))[0] < 2:
            pass
        assert (await stable_values(client, 0))[0] == 0
        topic.partitions[0] = before
        while (await stable_values(client, 0))[0] < 2:
            pass
