"""GetTelemetrySubscriptions and PushTelemetry over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import api_versions, get_telemetry_subscriptions, push_telemetry
from minikafka.protocol.records import Compression, compress
from tests.broker.handlers.config_requests import CLIENT_METRICS, SET, change
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, records_of

ALL = (("metrics", SET, "*"), ("interval.ms", SET, "100"))


async def ask(
    client: WireClient, instance_id: bytes = ZERO_UUID
) -> get_telemetry_subscriptions.Response:
    request = get_telemetry_subscriptions.Request(client_instance_id=instance_id)
    return await client.ask(request, 0, get_telemetry_subscriptions.Response)


async def push(
    client: WireClient, instance_id: bytes, subscription_id: int, kind: int, metrics: bytes
) -> int:
    request = push_telemetry.Request(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        terminating=False,
        compression_type=kind,
        metrics=metrics,
    )
    return (await client.ask(request, 0, push_telemetry.Response)).error_code


async def test_nothing_is_asked_for_without_a_subscription(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        offer = await ask(under_test.connect())
        assert (offer.error_code, offer.requested_metrics) == (ErrorCode.NONE, [])
        assert offer.client_instance_id != ZERO_UUID
        assert (offer.push_interval_ms, offer.telemetry_max_bytes) == (300_000, 1_048_576)


async def test_what_is_pushed_can_be_read_from_a_topic(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        software = api_versions.Request(client_software_name="rd", client_software_version="2.1")
        await client.ask(software, 3, api_versions.Response)
        match = ("match", SET, "client_software_name=rd,client_software_version=2\\..*")
        assert await change(client, CLIENT_METRICS, "m", match, *ALL) == ErrorCode.NONE
        offer = await ask(client)
        assert (offer.requested_metrics, offer.push_interval_ms) == (["*"], 100)
        us, subscription = offer.client_instance_id, offer.subscription_id
        packed = compress(Compression.ZSTD, b"otlp" * 100)
        assert await push(client, us, subscription, 4, packed) == ErrorCode.NONE
        (record,) = records_of(await client.fetch("__client_telemetry", 0))
        assert record.value == b"otlp" * 100
        headers = dict(record.headers)
        assert headers["client_software_name"] == b"rd"
        assert headers["client_source_address"] == b"test"
        assert headers["terminating"] == b"false"


@pytest.mark.parametrize(
    ("kind", "metrics", "code"),
    [
        (4, b"not zstd", ErrorCode.INVALID_RECORD),
        (4, compress(Compression.ZSTD, bytes(9 * 1024 * 1024)), ErrorCode.INVALID_RECORD),
        (0, b"x" * 1001, ErrorCode.TELEMETRY_TOO_LARGE),
        (9, b"x", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
    ids=["malformed", "bomb", "too large", "unknown compression"],
)
async def test_what_cannot_be_kept_is_refused(
    tmp_path: Path, kind: int, metrics: bytes, code: ErrorCode
) -> None:
    async with running_broker(tmp_path, "telemetry.max.bytes=1000") as under_test:
        client = under_test.connect()
        await change(client, CLIENT_METRICS, "m", *ALL)
        offer = await ask(client)
        us, subscription = offer.client_instance_id, offer.subscription_id
        assert await push(client, ZERO_UUID, subscription, 0, b"x") == ErrorCode.INVALID_REQUEST
        assert await push(client, us, subscription, kind, metrics) == code
        assert "__client_telemetry" not in under_test.broker.image.topics
