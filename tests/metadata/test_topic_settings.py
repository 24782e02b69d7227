"""Topic settings: the table against the storage floor and the brokers' table, and the checks."""

from pathlib import Path

import pytest

import minikafka
from minikafka.metadata.setting_table import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig
from minikafka.metadata.settings import InvalidSettingError, render_setting
from minikafka.metadata.topic_settings import check_topic_settings, log_config, topic_values
from minikafka.storage.log_config import DEFAULT_LOG_CONFIG, LogConfig


def test_defaults_make_the_storage_floors_default_configuration() -> None:
    assert log_config(topic_values({}, {})) == DEFAULT_LOG_CONFIG


def test_the_values_have_the_types_of_the_log_configuration() -> None:
    made = log_config(topic_values({"min.cleanable.dirty.ratio": "1"}, {}))
    for field in LogConfig.FIELDS:
        assert type(getattr(made, field)) is type(getattr(DEFAULT_LOG_CONFIG, field))


def test_every_default_satisfies_its_own_rules() -> None:
    check_topic_settings(
        {name: render_setting(setting.default) for name, setting in TOPIC_SETTINGS.items()}
    )


def test_a_topic_setting_shares_its_declaration_with_its_broker_setting() -> None:
    for setting in TOPIC_SETTINGS.values():
        if setting.broker_name is not None:
            broker = BROKER_SETTINGS[setting.broker_name]
            assert (broker.kind, broker.default) == (setting.kind, setting.default), setting.name
            assert (broker.at_least, broker.at_most) == (setting.at_least, setting.at_most)
            assert broker.choices == setting.choices
            assert broker.is_dynamic, f"Kafka can change {broker.name} at run time"
            assert broker.doc == f"{setting.doc} The topic setting {setting.name} overrides it."


# Topic settings that are not for the log, and the modules that read them.
READ_BY_NAME = {
    "errors.deadletterqueue.group.enable": "broker/shares/dead_letters.py",
    "compression.type": "broker/replicas/topic_state.py",
    "compression.gzip.level": "broker/replicas/topic_state.py",
    "compression.lz4.level": "broker/replicas/topic_state.py",
    "compression.zstd.level": "broker/replicas/topic_state.py",
    "min.insync.replicas": "metadata/replication_rules.py",
    "unclean.leader.election.enable": "metadata/replication_rules.py",
    "follower.replication.throttled.replicas": "broker/replicas/topic_state.py",
    "leader.replication.throttled.replicas": "broker/replicas/topic_state.py",
}


def test_every_topic_setting_is_obeyed_or_says_that_it_is_not() -> None:
    """A setting that is only declared would be accepted and shown, but do nothing."""
    of_the_log = {field.replace("_", ".") for field in LogConfig.FIELDS} | {"cleanup.policy"}
    product = Path(minikafka.__file__).parent
    for name, setting in TOPIC_SETTINGS.items():
        if name in READ_BY_NAME:
            assert f'"{name}"' in (product / READ_BY_NAME[name]).read_text()
        elif name not in of_the_log:
            assert setting.is_ignored, name
        assert setting.is_ignored == setting.doc.startswith("Accepted for compatibility"), name


def test_a_topics_value_wins_over_the_brokers_and_that_over_the_default() -> None:
    broker = BrokerConfig(log_retention_ms=5, log_segment_bytes=2048).values_by_name()
    values = topic_values({"retention.ms": "7"}, broker)
    assert (values["retention.ms"], values["segment.bytes"]) == (7, 2048)
    assert values["max.message.bytes"] == 1_048_588


def test_settings_become_the_logs_configuration() -> None:
    overrides = {"cleanup.policy": "compact", "flush.messages": "1", "retention.ms": "-1"}
    made = log_config(topic_values(overrides, {}), producer_id_expiration_ms=9)
    assert (made.cleanup_compact, made.cleanup_delete) == (True, False)
    assert (made.flush_messages, made.retention_ms, made.producer_id_expiration_ms) == (1, -1, 9)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"retention.mss": "1"}, "did you mean retention.ms"),
        ({"retention.ms": None}, "no value"),
        ({"retention.ms": "soon"}, "soon"),
        ({"cleanup.policy": "delete,archive"}, "delete, compact"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "9 is larger than"),
    ],
)
def test_settings_that_cannot_be_are_refused(overrides: dict[str, str | None], words: str) -> None:
    with pytest.raises(InvalidSettingError, match=words):
        check_topic_settings(overrides)


def test_compaction_lags_may_be_equal() -> None:
    overrides = {"min.compaction.lag.ms": "8", "max.compaction.lag.ms": "8"}
    check_topic_settings(overrides)
    assert topic_values(overrides, {})["max.compaction.lag.ms"] == 8
