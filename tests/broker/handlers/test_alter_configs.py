"""AlterConfigs and IncrementalAlterConfigs over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from minikafka.broker.handlers.config_resources import RESOURCES_PER_REQUEST_MAX
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_configs, describe_configs
from minikafka.protocol.records import encode_batch
from tests.broker.handlers.config_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
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
from tests.kit.in_process import running_broker
from tests.kit.wire import values_of


async def test_changed_topic_settings_are_effective_immediately_and_after_a_restart(
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
async def test_replacing_resets_settings_that_are_not_in_the_request(
    tmp_path: Path, version: int
) -> None:
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
async def test_an_invalid_setting_changes_nothing_of_its_resource(
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


async def test_a_cluster_wide_default_applies_to_topics_without_an_override(
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


async def test_the_cleaner_uses_a_new_backoff_immediately(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "log.cleaner.backoff.ms=3600000") as under_test:
        client = under_test.connect()
        await client.create_topic("t", cleanup_policy="compact", segment_bytes="1024")
        for value in (b"a" * 600, b"b" * 600, b"c" * 600):
            await client.produce("t", batch=bytes(encode_batch([(b"key", value, (), 1000)])))
        # A change of another setting does not end the backoff.
        assert await change(client, BROKER, "", ("log.retention.ms", SET, "8000")) == 0
        assert values_of(await client.fetch("t", 0)) == [b"a" * 600]
        assert await change(client, BROKER, "", ("log.cleaner.backoff.ms", SET, "1")) == 0
        while values_of(await client.fetch("t", 0)) == [b"a" * 600]:
            await trio.testing.wait_all_tasks_blocked()
        assert values_of(await client.fetch("t", 0)) == [b"b" * 600]


async def test_producers_expire_by_the_current_setting(tmp_path: Path) -> None:
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
        (BROKER, "2", "log.retention.ms", ErrorCode.INVALID_REQUEST),
        (GROUP, "", "consumer.session.timeout.ms", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", "consumer.session.timeout.ms", ErrorCode.INVALID_CONFIG),
        (GROUP, "g", "no.such", ErrorCode.INVALID_CONFIG),
        (CLIENT_METRICS, "", "interval.ms", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", "interval.ms", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", "match", ErrorCode.INVALID_CONFIG),
        (CLIENT_METRICS, "m", "no.such", ErrorCode.INVALID_REQUEST),
        (3, "x", "no.such", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_changes_are_refused(
    tmp_path: Path, resource_type: int, name: str, setting: str, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        assert await change(client, resource_type, name, (setting, SET, "5")) == code
        assert await replace(client, resource_type, name, {setting: "5"}) == code


async def test_kafka_settings_without_effect_are_stored_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        "remote.storage.enable": "false",
        "local.retention.ms": "1000",
        "local.retention.bytes": "-2",
        "segment.jitter.ms": "3",
    }
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", local_retention_ms="7")
        assert "local.retention.ms was set on topic 't' and has no effect" in caplog.text
        assert await change(
            client, TOPIC, "t", *[(name, SET, value) for name, value in settings.items()]
        ) == (ErrorCode.NONE)
        assert "segment.jitter.ms was set on topic 't' and has no effect" in caplog.text
        shown = await entries(client, TOPIC, "t")
        assert {name: shown[name].value for name in settings} == settings
        for name in settings:
            assert "Accepted for compatibility" in (shown[name].documentation or "")
        tiered = ("remote.storage.enable", SET, "true")
        assert await change(client, TOPIC, "t", tiered) == ErrorCode.INVALID_CONFIG


async def test_dynamic_broker_settings_that_are_unknown_are_stored_and_shown_without_a_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        assert await change(client, BROKER, "1", ("my.plugin", SET, "5")) == ErrorCode.NONE
        assert await change(client, BROKER, "", ("my.other", SET, "5")) == ErrorCode.NONE
        assert "my.plugin was set on broker '1' and has no effect" in caplog.text
    async with running_broker(tmp_path) as under_test:
        shown = await entries(under_test.connect(), BROKER, "1", ["my.plugin", "my.other"])
        assert {name: one.config_source for name, one in shown.items()} == {
            "my.plugin": FROM_THIS_BROKER,
            "my.other": FROM_ALL_BROKERS,
        }
        assert all(one.is_sensitive and one.value is None for one in shown.values())


async def test_the_clusters_min_insync_replicas_is_a_dynamic_default(tmp_path: Path) -> None:
    """KIP-966: it is set for the cluster, so that every broker counts the same replicas."""
    name = "min.insync.replicas"
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        assert await change(client, BROKER, "", (name, SET, "2")) == ErrorCode.NONE
        for resource_type, resource in ((BROKER, ""), (BROKER, "1"), (TOPIC, "t")):
            shown = (await entries(client, resource_type, resource, [name]))[name]
            assert (shown.value, shown.config_source) == ("2", FROM_ALL_BROKERS)
            assert (shown.synonyms or [])[0].source == FROM_ALL_BROKERS


@pytest.mark.parametrize(
    ("codec", "weak", "strong"), [("gzip", "1", "9"), ("lz4", "9", "17"), ("zstd", "-100", "19")]
)
async def test_a_topic_recompresses_at_its_level(
    tmp_path: Path, codec: str, weak: str, strong: str
) -> None:
    text = b" ".join(b"%d" % (number * number) for number in range(20_000))
    batch = bytes(encode_batch([(None, text, (), 5)]))
    sizes: list[int] = []
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        for number, level in enumerate((weak, strong)):
            settings = {"compression_type": codec, f"compression_{codec}_level": level}
            await client.create_topic(f"t{number}", 1, **settings)
            await client.produce(f"t{number}", batch=batch)
            assert values_of(await client.fetch(f"t{number}", 0)) == [text]
            sizes.append(under_test.broker.partitions[f"t{number}", 0].log.size_bytes)
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("codec", "level"), [("gzip", "0"), ("gzip", "10"), ("lz4", "0"), ("lz4", "18"), ("zstd", "23")]
)
async def test_a_level_that_the_codec_does_not_have_is_refused(
    tmp_path: Path, codec: str, level: str
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        wrong = (f"compression.{codec}.level", SET, level)
        assert await change(client, TOPIC, "t", wrong) == ErrorCode.INVALID_CONFIG


async def test_contradictory_requests_are_refused(tmp_path: Path) -> None:
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
            alter_configs.Resource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name="flush.ms", value="5")],
            )
            for name in ("t", "u", "t")
        ]
        request = alter_configs.Request(resources=resources, validate_only=False)
        response = await client.ask(request, 2, alter_configs.Response)
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
            describe_configs.Request(
                resources=[
                    describe_configs.Resource(resource_type=TOPIC, resource_name=name)
                    for name in names
                ]
            ),
            4,
            describe_configs.Response,
        )
        changed = await client.ask(
            alter_configs.Request(
                resources=[
                    alter_configs.Resource(resource_type=TOPIC, resource_name=name, configs=[])
                    for name in names
                ],
                validate_only=False,
            ),
            2,
            alter_configs.Response,
        )
        for codes in (
            [one.error_code for one in described.results],
            [one.error_code for one in changed.responses],
        ):
            assert set(codes[:-1]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert codes[-1] == ErrorCode.POLICY_VIOLATION
