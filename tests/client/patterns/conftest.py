"""Topics with many small batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from minikafka_client import Producer
from tests.client.trio_api.topics import new_topic

FilledTopic = Callable[..., Awaitable[str]]


@pytest.fixture
def filled_topic(bootstrap: str, new_name: Callable[[], str]) -> FilledTopic:
    """Makes topics with so many records in each partition."""

    async def fill(count: int, partitions: int = 1) -> str:
        topic = await new_topic(bootstrap, new_name(), partitions)
        async with Producer(bootstrap, batch_size=300) as producer:
            for partition in range(partitions):
                for number in range(count):
                    await producer.send(topic, b"%d" % number, partition=partition)
        return topic

    return fill


@pytest.fixture
async def topic(filled_topic: FilledTopic) -> str:
    """A topic with 30 records in its partition."""
    return await filled_topic(30)
