"""Metadata: topics by name and by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import metadata
from tests.kit.in_process import running_broker


@pytest.mark.parametrize("version", [10, 11])
async def test_topic_ids_in_requests_are_refused_before_version_12(
    version: int, tmp_path: Path
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        topic_id = under_test.broker.image.topics["t"].topic_id
        by_id = metadata.RequestTopic(name=None, topic_id=topic_id)
        by_both = metadata.RequestTopic(name="t", topic_id=topic_id)
        request = metadata.Request(topics=[by_id, by_both, metadata.RequestTopic(name="t")])
        response = await client.ask(request, version, metadata.Response)
        assert [(one.error_code, one.name) for one in response.topics] == [
            (ErrorCode.INVALID_REQUEST, ""),
            (ErrorCode.INVALID_REQUEST, "t"),
            (ErrorCode.INVALID_REQUEST, "t"),
        ]
