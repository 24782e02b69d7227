"""Settings that hold secrets: nothing that people read contains them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from minikafka.broker.settings.config import load_config, secrets_in
from minikafka.cli.private_settings import check_private_settings
from minikafka.metadata.setting_table import BROKER_SETTINGS
from minikafka.metadata.settings import (
    VALUE_LENGTH_MAX,
    InvalidSettingError,
    Password,
    SettingType,
    parse_setting,
    render_setting,
)
from tests.broker.handlers.config_requests import BROKER, SET, change, entries
from tests.kit.in_process import running_broker

SECRET = "correct horse battery staple"
NAMES = sorted(one.name for one in BROKER_SETTINGS.values() if one.kind is SettingType.PASSWORD)
OF_LISTENER = "listener.name.plaintext.ssl.key.password"


@pytest.mark.parametrize("name", NAMES)
def test_no_text_about_a_secret_contains_it(name: str) -> None:
    config = load_config(None, [f"{name}={SECRET}", f"{OF_LISTENER}={SECRET}"], {})
    value = config.value_of(name)
    assert isinstance(value, Password)
    assert value.reveal() == SECRET
    for text in (repr(config), f"{value} {value!r}", render_setting(value), str(config)):
        assert SECRET not in text
    with pytest.raises(InvalidSettingError) as caught:
        parse_setting(BROKER_SETTINGS[name], SECRET * VALUE_LENGTH_MAX)
    assert SECRET not in str(caught.value)
    assert name in str(caught.value)


def test_secrets_are_compared_and_may_be_missing() -> None:
    assert Password("a") == Password("a") != Password("b")
    assert Password("a") != "a"
    assert len({Password("a"), Password("a")}) == 1
    assert not Password()


@pytest.mark.parametrize("text", [f"ssl.key.password:{SECRET}", f"ssl.key.password {SECRET}"])
def test_a_malformed_assignment_is_not_repeated(text: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"'ssl\.key\.password'") as caught:
        load_config(None, [text], {})
    assert SECRET not in str(caught.value)


async def test_describe_configs_knows_them_and_does_not_show_them(tmp_path: Path) -> None:
    async with running_broker(tmp_path, f"ssl.key.password={SECRET}") as under_test:
        shown = await entries(under_test.connect(), BROKER, "1")
        for name in NAMES:
            one = shown[name]
            assert (one.value, one.is_sensitive, one.config_type) == (None, True, 9)
            assert {synonym.value for synonym in one.synonyms} <= {None}
        assert shown["ssl.keystore.location"].is_sensitive is False


@pytest.mark.parametrize("name", ["ssl.key.password", OF_LISTENER])
async def test_secrets_are_never_written_to_the_metadata_log(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_broker(tmp_path) as under_test:
        assert await change(under_test.connect(), BROKER, "1", (name, SET, SECRET)) != 0
    assert SECRET not in caplog.text
    assert not files_with(SECRET.encode(), tmp_path)


def files_with(content: bytes, directory: Path) -> list[Path]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path for path in files if content in path.read_bytes()]


def test_a_file_with_secrets_belongs_to_its_owner_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "broker.toml"
    path.touch(mode=0o644)
    plain = "[num]\npartitions = 3\n"
    check_private_settings(plain, ["num.partitions=4"], path)
    secret = plain + f'[listener.name.ssl.ssl.keystore]\npassword = "{SECRET}"\n'
    with pytest.raises(InvalidSettingError, match=f"chmod 600 {path}") as caught:
        check_private_settings(secret, [], path)
    assert SECRET not in str(caught.value)
    path.chmod(0o600)
    check_private_settings(secret, [], path)
    assert caplog.text == ""
    check_private_settings(None, [f"ssl.key.password={SECRET}"], None)
    assert "--set ssl.key.password: other users can see" in caplog.text
    assert SECRET not in caplog.text


def test_secrets_are_found_under_all_their_names() -> None:
    assert secrets_in('"ssl.key.password" = "x"', [f"{OF_LISTENER}=y", "num.partitions=1"]) == [
        "ssl.key.password",
        OF_LISTENER,
    ]
