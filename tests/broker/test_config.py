"""Broker settings: files, flags, coarser units, and helpful errors."""

import pytest

from minikafka.broker.settings.config import load_config
from minikafka.metadata.setting_table import BROKER_SETTINGS, BrokerConfig
from minikafka.metadata.settings import InvalidSettingError, SettingType


def test_defaults_are_kafkas() -> None:
    config = load_config(None, [], {})
    assert config == BrokerConfig()
    assert config.num_partitions == 1
    assert config.message_max_bytes == 1_048_588
    assert config.log_retention_ms == 7 * 24 * 3_600_000


def test_flags_override_set_and_set_overrides_the_file() -> None:
    config = load_config(
        '"num.partitions" = 2\n"node.id" = 4\n[log.retention]\nms = 5',
        ["num.partitions=3", "node.id=5"],
        {"node.id": "6"},
    )
    assert (config.num_partitions, config.node_id, config.log_retention_ms) == (3, 6, 5)


def test_tables_and_lists_of_a_file_become_dotted_names() -> None:
    config = load_config(
        '[log]\ncleanup.policy = ["compact", "delete"]\npreallocate = true', [], {}
    )
    assert config.log_cleanup_policy == ("compact", "delete")
    assert config.log_preallocate is True


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (["log.retention.hours=2"], 7_200_000),
        (["log.retention.hours=2", "log.retention.minutes=3"], 180_000),
        (["log.retention.minutes=3", "log.retention.hours=2"], 180_000),
        (["log.retention.ms=7", "log.retention.minutes=3"], 7),
        (["log.retention.hours=-1"], -1),
    ],
)
def test_the_finest_unit_wins(assignments: list[str], expected: int) -> None:
    assert load_config(None, assignments, {}).log_retention_ms == expected


def test_session_timeouts_have_no_bounds_of_their_own() -> None:
    config = load_config(
        None, ["group.min.session.timeout.ms=0", "group.max.session.timeout.ms=-1"], {}
    )
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (0, -1)


def test_broker_id_and_log_dir_are_accepted_names() -> None:
    config = load_config(None, ["broker.id=9", "log.dir=/data"], {})
    assert (config.node_id, config.log_dirs) == (9, ("/data",))


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("num.partition=3", "did you mean num.partitions"),
        ("num.partitions=many", "'many'"),
        ("num.partitions=0", "between 1"),
        ("num.partitions", "key=value"),
        ("auto.create.topics.enable=yes", "true or false"),
        ("log.cleanup.policy=squash", "delete, compact"),
        ("log.message.timestamp.type=Never", "CreateTime, LogAppendTime"),
        ("log.retention.hours=99999999999999999", "between -1"),
        ("log.cleaner.min.cleanable.ratio=1.5", "between 0 and 1"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_value_and_the_rule(
    assignment: str, words: str
) -> None:
    with pytest.raises(InvalidSettingError, match=words):
        load_config(None, [assignment], {})


def test_text_that_is_not_toml_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="not valid TOML"):
        load_config("num.partitions = ", [], {})


def test_every_setting_has_documentation_and_a_valid_default() -> None:
    for name, setting in BROKER_SETTINGS.items():
        assert setting.doc.endswith("."), name
        if isinstance(setting.default, int) and setting.kind is not SettingType.BOOLEAN:
            assert setting.at_least is not None, name
            assert setting.default >= setting.at_least, name


def test_values_by_name_has_every_setting() -> None:
    values = BrokerConfig(num_partitions=8).values_by_name()
    assert values["num.partitions"] == 8
    assert set(values) == set(BROKER_SETTINGS)
