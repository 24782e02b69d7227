"""Altering settings: replaced whole or changed one by one, all of a resource or nothing."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata.decision import Refusal
from minikafka.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, MetadataImage
from minikafka.metadata.setting_changes import (
    NewValues,
    Operation,
    Resource,
    SettingChange,
    SettingRules,
    alter_settings,
    check_dynamic,
    incremental_values,
    replacing_values,
)
from minikafka.metadata.setting_table import BROKER_SETTINGS, TOPIC_SETTINGS
from minikafka.metadata.settings import VALUE_LENGTH_MAX
from minikafka.metadata.topic_settings import check_topic_settings
from minikafka.protocol.errors import ErrorCode
from tests.metadata.cluster import replay

TOPIC = Resource(RESOURCE_TOPIC, "t")
BROKER = Resource(RESOURCE_BROKER, "")
TOPIC_RULES = SettingRules(TOPIC_SETTINGS, check_topic_settings, ErrorCode.INVALID_CONFIG)
BROKER_RULES = SettingRules(
    BROKER_SETTINGS, partial(check_dynamic, BROKER_SETTINGS), ErrorCode.INVALID_REQUEST
)
SET, DELETE, APPEND, SUBTRACT = Operation


def code_of(result: object) -> ErrorCode:
    assert isinstance(result, Refusal), result
    assert result.message
    return result.error_code


def change(present: dict[str, str], *changes: SettingChange) -> NewValues | Refusal:
    return incremental_values(present, changes, TOPIC_RULES)


# --- what is wished ----------------------------------------------------------------------------


def test_replacing_resets_settings_that_are_not_named() -> None:
    values = replacing_values({"a": "1", "b": "2"}, [("b", "3"), ("c", "4")])
    assert values == {"a": None, "b": "3", "c": "4"}


@pytest.mark.parametrize("wanted", [[("a", "1"), ("a", "1")], [("a", None)]])
def test_replacing_with_a_name_twice_or_without_a_value_is_refused(
    wanted: list[tuple[str, str | None]],
) -> None:
    assert code_of(replacing_values({}, wanted)) is ErrorCode.INVALID_REQUEST


def test_set_and_delete_leave_the_rest_alone() -> None:
    values = change(
        {"retention.ms": "1", "segment.ms": "2"},
        SettingChange("segment.ms", SET, "3"),
        SettingChange("retention.bytes", DELETE, None),
    )
    assert values == {"segment.ms": "3", "retention.bytes": None}


@pytest.mark.parametrize(
    ("present", "operation", "value", "expected"),
    [
        ({}, APPEND, "compact", "delete,compact"),
        ({}, APPEND, "delete", "delete"),
        ({}, SUBTRACT, "delete", ""),
        ({"cleanup.policy": "compact"}, APPEND, "delete", "compact,delete"),
        ({"cleanup.policy": "compact,delete"}, SUBTRACT, "compact", "delete"),
        ({"cleanup.policy": "compact"}, SUBTRACT, "delete", "compact"),
        ({"cleanup.policy": ""}, APPEND, "compact,delete", "compact,delete"),
        ({"cleanup.policy": "compact"}, APPEND, "", "compact"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(
    present: dict[str, str], operation: Operation, value: str, expected: str
) -> None:
    values = change(present, SettingChange("cleanup.policy", operation, value))
    assert values == {"cleanup.policy": expected}


MEMBERS = st.lists(st.sampled_from("abcdef"), max_size=6)


@given(MEMBERS, MEMBERS)
def test_appending_and_subtracting_are_set_operations_that_keep_order(
    before: list[str], other: list[str]
) -> None:
    name = "leader.replication.throttled.replicas"
    present = {name: ",".join(before)}
    appended = change(present, SettingChange(name, APPEND, ",".join(other)))
    assert appended == {name: ",".join(dict.fromkeys(before + other))}
    subtracted = change(present, SettingChange(name, SUBTRACT, ",".join(other)))
    kept = [member for member in dict.fromkeys(before) if member not in other]
    assert subtracted == {name: ",".join(kept)}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([SettingChange("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([SettingChange("no.such", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([SettingChange("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([SettingChange("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (
            [SettingChange("retention.ms", SET, "1"), SettingChange("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_impossible_operations_are_refused(changes: list[SettingChange], code: ErrorCode) -> None:
    assert code_of(change({}, *changes)) is code


# --- what is decided ---------------------------------------------------------------------------


def alter(image: MetadataImage, values: NewValues) -> Refusal | None:
    decision = alter_settings(image, TOPIC, values, TOPIC_RULES)
    replay(image, decision)
    return decision.result


def test_only_differences_are_recorded() -> None:
    image = MetadataImage()
    assert alter(image, {"retention.ms": "1", "segment.ms": "2"}) is None
    version = image.version
    assert alter(image, {"retention.ms": "1", "segment.ms": None, "flush.ms": None}) is None
    assert image.version == version + 1
    assert image.topic_settings("t") == {"retention.ms": "1"}


def test_a_resource_takes_all_changes_or_none() -> None:
    image = MetadataImage()
    refusal = alter(image, {"retention.ms": "1", "segment.ms": "never"})
    assert code_of(refusal) is ErrorCode.INVALID_CONFIG
    assert image.settings == {}


def test_a_change_is_checked_together_with_present_settings() -> None:
    image = MetadataImage()
    assert alter(image, {"max.compaction.lag.ms": "5"}) is None
    assert code_of(alter(image, {"min.compaction.lag.ms": "6"})) is ErrorCode.INVALID_CONFIG
    assert alter(image, {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": None}) is None


def test_a_value_that_is_too_long_is_refused() -> None:
    image = MetadataImage()
    name = "leader.replication.throttled.replicas"
    refusal = alter(image, {name: "1:1," * VALUE_LENGTH_MAX})
    assert code_of(refusal) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num.partitions", "2", "dynamically"),
        ("a" * 250, "2", "249 characters"),
        ("", "2", "249 characters"),
        ("no.such", "2" * 40_000, "32767"),
        ("log.retention.ms", "soon", "soon"),
    ],
)
def test_a_broker_refuses_settings_that_are_fixed_unknown_or_impossible(
    name: str, value: str, words: str
) -> None:
    refusal = alter_settings(MetadataImage(), BROKER, {name: value}, BROKER_RULES).result
    assert code_of(refusal) is ErrorCode.INVALID_REQUEST
    assert refusal is not None
    assert words in refusal.message


def test_a_broker_stores_some_settings_that_it_does_not_know() -> None:
    image = MetadataImage()
    replay(image, alter_settings(image, BROKER, {"my.plugin": "9"}, BROKER_RULES))
    assert image.settings == {(RESOURCE_BROKER, ""): {"my.plugin": "9"}}
    many = {f"my.{number}": "9" for number in range(1000)}
    assert code_of(alter_settings(image, BROKER, many, BROKER_RULES).result) is (
        ErrorCode.INVALID_REQUEST
    )


def test_a_broker_takes_a_dynamic_setting() -> None:
    image = MetadataImage()
    replay(image, alter_settings(image, BROKER, {"log.retention.ms": "9"}, BROKER_RULES))
    assert image.settings == {(RESOURCE_BROKER, ""): {"log.retention.ms": "9"}}
