"""DescribeConfigs over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.metadata.setting_table import BROKER_SETTINGS, TOPIC_SETTINGS
from minikafka.metadata.settings import SettingType
from minikafka.protocol.errors import ErrorCode
from tests.broker.handlers.config_requests import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DEFAULT,
    FROM_FILE,
    FROM_TOPIC,
    GROUP,
    TOPIC,
    describe,
    entries,
)
from tests.kit.in_process import running_broker


async def test_a_topic_shows_every_setting_and_where_its_value_comes_from(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "log.segment.bytes=4096") as under_test:
        client = under_test.connect()
        await client.create_topic("t", retention_ms="5")
        shown = await entries(client, TOPIC, "t")
        assert set(shown) == set(TOPIC_SETTINGS)
        assert not any(one.read_only or one.is_sensitive for one in shown.values())
        retention = shown["retention.ms"]
        assert (retention.value, retention.config_source) == ("5", FROM_TOPIC)
        assert (retention.config_type, retention.documentation) == (
            SettingType.LONG,
            TOPIC_SETTINGS["retention.ms"].doc,
        )
        assert [(one.name, one.value, one.source) for one in retention.synonyms] == [
            ("retention.ms", "5", FROM_TOPIC),
            ("log.retention.ms", "604800000", DEFAULT),
        ]
        segment = shown["segment.bytes"]
        assert [(one.name, one.value, one.source) for one in segment.synonyms] == [
            ("log.segment.bytes", "4096", FROM_FILE),
            ("log.segment.bytes", "1073741824", DEFAULT),
        ]
        policy = shown["cleanup.policy"]
        assert (policy.value, policy.config_source) == ("delete", DEFAULT)
        throttled = shown["leader.replication.throttled.replicas"]
        assert (throttled.value, throttled.config_source) == ("", DEFAULT)


async def test_an_explicit_value_is_static_even_if_it_equals_the_default(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, "num.partitions=1") as under_test:
        shown = await entries(under_test.connect(), BROKER, "1")
        assert shown["num.partitions"].config_source == FROM_FILE
        assert shown["message.max.bytes"].config_source == DEFAULT


async def test_only_the_names_asked_for_are_shown(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        keys = ["retention.ms", "no.such", "cleanup.policy"]
        assert set(await entries(client, TOPIC, "t", keys)) == {"retention.ms", "cleanup.policy"}
        assert set(await entries(client, TOPIC, "t", [])) == set(TOPIC_SETTINGS)


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_describes_without_details_unless_asked(
    tmp_path: Path, version: int
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        result = await describe(client, TOPIC, "t", version=version)
        assert {one.name for one in result.configs} == set(TOPIC_SETTINGS)
        assert not any(one.synonyms for one in result.configs)
        if version >= 3:
            assert {one.documentation for one in result.configs} == {None}


async def test_this_broker_shows_its_settings_and_which_are_fixed(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "node.id=7") as under_test:
        shown = await entries(under_test.connect(), BROKER, "7")
        assert set(shown) == set(BROKER_SETTINGS)
        assert (shown["node.id"].value, shown["node.id"].read_only) == ("7", True)
        assert not shown["log.retention.ms"].read_only
        assert shown["log.cleaner.min.cleanable.ratio"].config_type == SettingType.DOUBLE


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_unknown_resources_are_refused(
    tmp_path: Path, resource_type: int, name: str, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        result = await describe(under_test.connect(), resource_type, name)
        assert (result.error_code, result.configs) == (code, [])
