"""AlterConfigs and IncrementalAlterConfigs over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from minikafka.broker.config_resources import RESOURCES_PER_REQUEST_MAX
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_configs
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from minikafka.protocol.records import encode_batch
from tests.broker.handlers.config_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    DEFAULT,
    DELETE,
    FROM_ALL_BROKERS,
    FROM_FILE,
    FROM_THIS_BROKER,
    FROM_TOPIC,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    entries,
    replace,
)
from tests.broker.harness import running_broker, values_of


async def test_changed_settings_of_a_topic_are_effective_at_once_and_after_a_restart(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", retention_ms="5")
        changes = [
            ("max.message.bytes", SET, "100"),
            ("cleanup.policy", APPEND, "compact"),
            ("retention.ms", DELETE, None),
        ]
        assert await change(client, TOPIC, "t", *changes, version=0) == ErrorCode.NONE
        log = under_test.broker.partitions["t", 0].log
        assert (log.config.cleanup_compact, log.config.retention_ms) == (True, 604_800_000)
        answer = await client.produce("t", b"x" * 200)
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        shown = await entries(client, TOPIC, "t")
        assert shown["cleanup.policy"].value == "delete,compact"
        assert shown["max.message.bytes"].config_source == FROM_TOPIC
        assert under_test.broker.partitions["t", 0].log.config.max_message_bytes == 100
        assert await change(client, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == 0
        assert (await entries(client, TOPIC, "t"))["cleanup.policy"].value == "compact"


@pytest.mark.parametrize("version", range(3))
async def test_replacing_takes_back_what_is_not_named(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", retention_ms="5", segment_ms="6")
        settings: dict[str, str | None] = {"segment.ms": "7", "flush.ms": "8"}
        assert await replace(client, TOPIC, "t", settings, version=version) == ErrorCode.NONE
        values = {
            one.name: one.value
            for one in (await entries(client, TOPIC, "t")).values()
            if one.config_source == FROM_TOPIC
        }
        assert values == settings


@pytest.mark.parametrize("validate_only", [True, False])
async def test_a_wrong_setting_leaves_all_settings_of_its_resource_alone(
    tmp_path: Path, validate_only: bool
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        changes = [("flush.ms", SET, "5"), ("retention.ms", SET, "soon")]
        code = await change(client, TOPIC, "t", *changes, validate_only=validate_only)
        assert code == ErrorCode.INVALID_CONFIG
        assert under_test.broker.image.settings == {}


async def test_validating_changes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        change_one = ("flush.ms", SET, "5")
        assert await change(client, TOPIC, "t", change_one, validate_only=True) == ErrorCode.NONE
        assert await replace(client, TOPIC, "t", {"flush.ms": "5"}, validate_only=True) == 0
        assert under_test.broker.image.settings == {}


async def test_a_setting_of_all_brokers_reaches_topics_that_have_none_of_their_own(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, "log.retention.ms=7000") as under_test:
        client = under_test.connect()
        await client.create_topic("follows")
        await client.create_topic("own", retention_ms="5")

        def kept(name: str) -> int:
            return under_test.broker.partitions[name, 0].log.config.retention_ms

        assert await change(client, BROKER, "", ("log.retention.ms", SET, "8000")) == 0
        assert [kept("follows"), kept("own")] == [8000, 5]
        assert await change(client, BROKER, "1", ("log.retention.ms", SET, "9000")) == 0
        assert [kept("follows"), kept("own")] == [9000, 5]
        synonyms = (await entries(client, TOPIC, "own"))["retention.ms"].synonyms
        assert [(one.value, one.source) for one in synonyms] == [
            ("5", FROM_TOPIC),
            ("9000", FROM_THIS_BROKER),
            ("8000", FROM_ALL_BROKERS),
            ("7000", FROM_FILE),
            ("604800000", DEFAULT),
        ]
        every = await entries(client, BROKER, "")
        assert {name: one.value for name, one in every.items()} == {"log.retention.ms": "8000"}
        assert await replace(client, BROKER, "1", {}) == ErrorCode.NONE
        assert kept("follows") == 8000
        await client.create_topic("new")
        assert kept("new") == 8000


async def test_the_cleaner_takes_another_rest_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "log.cleaner.backoff.ms=3600000") as under_test:
        client = under_test.connect()
        await client.create_topic("t", cleanup_policy="compact", segment_bytes="1024")
        for value in (b"a" * 600, b"b" * 600, b"c" * 600):
            await client.produce("t", batch=bytes(encode_batch([(b"key", value, (), 1000)])))
        # Another setting does not end the rest.
        assert await change(client, BROKER, "", ("log.retention.ms", SET, "8000")) == 0
        assert values_of(await client.fetch("t", 0)) == [b"a" * 600]
        assert await change(client, BROKER, "", ("log.cleaner.backoff.ms", SET, "1")) == 0
        while values_of(await client.fetch("t", 0)) == [b"a" * 600]:
            await trio.testing.wait_all_tasks_blocked()
        assert values_of(await client.fetch("t", 0)) == [b"b" * 600]


async def test_producers_are_forgotten_after_the_time_that_is_set_now(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "producer.id.expiration.ms=5000") as under_test:
        client = under_test.connect()
        await client.create_topic("old")
        for resource, value in (("", "6000"), ("1", "7000")):
            setting = ("producer.id.expiration.ms", SET, value)
            assert await change(client, BROKER, resource, setting) == 0
        await client.create_topic("new")
        for topic in ("old", "new"):
            log = under_test.broker.partitions[topic, 0].log
            assert log.config.producer_id_expiration_ms == 7000


@pytest.mark.parametrize(
    ("resource_type", "name", "setting", "code"),
    [
        (TOPIC, "u", "flush.ms", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", "flush.ms", ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", "no.such", ErrorCode.INVALID_CONFIG),
        (BROKER, "", "num.partitions", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "no.such", ErrorCode.INVALID_REQUEST),
        (BROKER, "2", "log.retention.ms", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", "consumer.session.timeout.ms", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_changed_is_refused(
    tmp_path: Path, resource_type: int, name: str, setting: str, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        assert await change(client, resource_type, name, (setting, SET, "5")) == code
        assert await replace(client, resource_type, name, {setting: "5"}) == code


async def test_requests_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        twice = [("flush.ms", SET, "5"), ("flush.ms", SET, "6")]
        assert await change(client, TOPIC, "t", *twice) == ErrorCode.INVALID_REQUEST
        assert await change(client, TOPIC, "t", ("flush.ms", SET, None)) == (
            ErrorCode.INVALID_REQUEST
        )
        assert await change(client, TOPIC, "t", ("flush.ms", 9, "5")) == ErrorCode.INVALID_REQUEST
        assert await replace(client, BROKER_LOGGER, "1", {"root": "INFO"}) == (
            ErrorCode.INVALID_REQUEST
        )


async def test_a_resource_named_twice_is_refused_and_the_others_are_not(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.create_topic("u")
        resources = [
            alter_configs.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name="flush.ms", value="5")],
            )
            for name in ("t", "u", "t")
        ]
        request = AlterConfigsRequest(resources=resources, validate_only=False)
        response = await client.ask(request, 2, AlterConfigsResponse)
        assert [one.error_code for one in response.responses] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
        ]


async def test_a_request_names_a_limited_number_of_resources(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        names = [f"t{number}" for number in range(RESOURCES_PER_REQUEST_MAX + 1)]
        described = await client.ask(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=TOPIC, resource_name=name)
                    for name in names
                ]
            ),
            4,
            DescribeConfigsResponse,
        )
        changed = await client.ask(
            AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(
                        resource_type=TOPIC, resource_name=name, configs=[]
                    )
                    for name in names
                ],
                validate_only=False,
            ),
            2,
            AlterConfigsResponse,
        )
        for codes in (
            [one.error_code for one in described.results],
            [one.error_code for one in changed.responses],
        ):
            assert set(codes[:-1]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert codes[-1] == ErrorCode.POLICY_VIOLATION
