"""Metadata: who may be asked for how."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.broker.harness import running_broker


@pytest.mark.parametrize("version", [10, 11])
async def test_versions_that_have_topic_ids_only_in_the_response_refuse_them_in_the_request(
    version: int, tmp_path: Path
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        topic_id = under_test.broker.image.topics["t"].topic_id
        by_id = MetadataRequestTopic(name=None, topic_id=topic_id)
        by_both = MetadataRequestTopic(name="t", topic_id=topic_id)
        request = MetadataRequest(topics=[by_id, by_both, MetadataRequestTopic(name="t")])
        response = await client.ask(request, version, MetadataResponse)
        assert [(one.error_code, one.name) for one in response.topics] == [
            (ErrorCode.INVALID_REQUEST, ""),
            (ErrorCode.INVALID_REQUEST, "t"),
            (ErrorCode.INVALID_REQUEST, "t"),
        ]
