"""ListConfigResources over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import list_config_resources
from tests.broker.handlers.config_requests import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
)
from tests.kit.in_process import running_broker

TOPICS = [(TOPIC, "a"), (TOPIC, "b")]
BROKERS = [(BROKER, "7")]
LOGGERS = [(BROKER_LOGGER, "7")]


@pytest.mark.parametrize(
    ("version", "types", "code", "expected"),
    [
        (0, [], ErrorCode.NONE, []),
        (1, [], ErrorCode.NONE, [*TOPICS, *BROKERS, *LOGGERS]),
        (1, [TOPIC], ErrorCode.NONE, TOPICS),
        (1, [BROKER_LOGGER, BROKER, BROKER], ErrorCode.NONE, [*BROKERS, *LOGGERS]),
        (1, [CLIENT_METRICS, GROUP], ErrorCode.NONE, []),
        (1, [TOPIC, 3], ErrorCode.UNSUPPORTED_VERSION, []),
    ],
)
async def test_everything_that_can_have_settings_is_listed(
    tmp_path: Path,
    version: int,
    types: list[int],
    code: ErrorCode,
    expected: list[tuple[int, str]],
) -> None:
    async with running_broker(tmp_path, "node.id=7") as under_test:
        client = under_test.connect()
        await client.create_topic("a")
        await client.create_topic("b")
        request = list_config_resources.Request(resource_types=types)
        response = await client.ask(request, version, list_config_resources.Response)
        assert response.error_code == code
        found = [(one.resource_type, one.resource_name) for one in response.config_resources]
        assert found == expected
