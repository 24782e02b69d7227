"""Settings of groups: the table against the brokers', what is allowed, and what is effective."""

import pytest

from minikafka.metadata.group_settings import check_group_settings, group_value, group_values
from minikafka.metadata.image import RESOURCE_GROUP, MetadataImage
from minikafka.metadata.records import SettingRecord
from minikafka.metadata.setting_table import BROKER_SETTINGS, GROUP_SETTINGS
from minikafka.metadata.settings import InvalidSettingError, render_setting

SESSION = "consumer.session.timeout.ms"


def test_a_group_setting_shares_its_declaration_with_its_broker_setting() -> None:
    shared = [one for one in GROUP_SETTINGS.values() if one.broker_name is not None]
    assert len(shared) == 15
    for setting in shared:
        broker = BROKER_SETTINGS[setting.broker_name or ""]
        assert (broker.kind, broker.default) == (setting.kind, setting.default), setting.name
        assert broker.at_least == setting.at_least
        assert broker.name == f"group.{setting.name}"
        assert setting.is_dynamic
        assert broker.doc == f"{setting.doc} The group setting {setting.name} overrides it."


def test_every_default_satisfies_its_own_rules() -> None:
    check_group_settings(
        {name: render_setting(setting.default) for name, setting in GROUP_SETTINGS.items()}, {}
    )


def test_the_image_keeps_the_settings_of_a_group_that_does_not_exist() -> None:
    image = MetadataImage()
    image.replay(SettingRecord(RESOURCE_GROUP, "g", SESSION, "50000"))
    assert image.group_settings("g") == {SESSION: "50000"}
    assert image.group_settings("other") == {}


def test_a_groups_own_value_comes_before_the_brokers() -> None:
    broker = {"group.consumer.session.timeout.ms": 46_000}
    assert group_value(SESSION, {}, {}) == 45_000
    assert group_value(SESSION, {}, broker) == 46_000
    assert group_value(SESSION, {SESSION: "47000"}, broker) == 47_000
    assert group_values({SESSION: "47000"}, broker)[SESSION] == 47_000


@pytest.mark.parametrize(
    ("name", "text", "broker", "effective"),
    [
        (SESSION, "59000", {"group.consumer.max.session.timeout.ms": 50_000}, 50_000),
        (SESSION, "46000", {"group.consumer.min.session.timeout.ms": 50_000}, 50_000),
        ("share.delivery.count.limit", "9", {"group.share.max.delivery.count.limit": 6}, 6),
        ("streams.num.standby.replicas", "2", {"group.streams.max.standby.replicas": 1}, 1),
    ],
)
def test_a_bound_that_changed_later_limits_what_is_effective(
    name: str, text: str, broker: dict[str, int], effective: int
) -> None:
    assert group_value(name, {name: text}, {}) == int(text)
    assert group_value(name, {name: text}, broker) == effective


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"consumer.session.timeout": "45000"}, "did you mean consumer.session.timeout.ms"),
        ({SESSION: "x"}, "must be a number of type int"),
        ({SESSION: "44999"}, r"group\.consumer\.min\.session\.timeout\.ms .* allows 45000 or more"),
        ({SESSION: "60001"}, r"group\.consumer\.max\.session\.timeout\.ms .* allows 60000 or less"),
        ({"share.record.lock.duration.ms": "14999"}, "allows 15000 or more"),
        ({"share.partition.max.record.locks": "4001"}, "allows 4000 or less"),
        ({"streams.num.standby.replicas": "3"}, "allows 2 or less"),
        ({"share.auto.offset.reset": "middle"}, "must be earliest, latest or by_duration"),
        ({"share.auto.offset.reset": "by_duration:P"}, "must be earliest, latest or by_duration"),
        ({"share.isolation.level": "some"}, "read_committed, read_uncommitted"),
        ({"errors.deadletterqueue.topic.name": "a b"}, "characters other than ASCII"),
        ({"errors.deadletterqueue.topic.name": "__dead"}, "are the broker's"),
    ],
)
def test_what_is_refused_says_why(texts: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidSettingError, match=problem):
        check_group_settings(texts, {})


def test_a_session_must_be_longer_than_the_interval_of_its_heartbeats() -> None:
    broker = {"group.consumer.min.session.timeout.ms": 10_000}
    check_group_settings({SESSION: "10000"}, broker)
    with pytest.raises(InvalidSettingError, match="must be longer than the interval"):
        check_group_settings({SESSION: "10000", "consumer.heartbeat.interval.ms": "10000"}, broker)


@pytest.mark.parametrize(
    "reset", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2.5S"]
)
def test_a_share_group_may_begin_anywhere(reset: str) -> None:
    check_group_settings({"share.auto.offset.reset": reset}, {})


def test_undeliverable_records_may_go_to_a_topic_of_the_user() -> None:
    check_group_settings({"errors.deadletterqueue.topic.name": "dlq.orders"}, {})
