"""Addresses: where a broker listens, and what it advertises."""

from pathlib import Path

import pytest

from minikafka.broker.run import BrokerOptions, StartError, run_broker
from minikafka.broker.settings.addresses import parse_address, render_address
from minikafka.broker.settings.config import load_config
from minikafka.metadata.settings import InvalidSettingError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("PLAINTEXT://10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_addresses_round_trip(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected
    assert render_address(*expected) == text.removeprefix("PLAINTEXT://")


@pytest.mark.parametrize("text", ["localhost", "host:", "host:65536", "host:-1", "SSL://host:1"])
def test_malformed_addresses_are_refused(text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text.rpartition("/")[2]):
        parse_address(text)


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["listeners=PLAINTEXT://0.0.0.0:0"], "--advertise"),
        (["listeners=a:1,b:2"], "names PLAINTEXT twice"),
        (["listeners="], "listeners is empty"),
        (["listeners=nowhere"], "HOST:PORT"),
        (["listeners=127.0.0.1:0", "advertised.listeners=nowhere"], "HOST:PORT"),
        (["listeners=host.invalid:0"], "cannot listen"),
    ],
)
def test_unusable_addresses_fail_the_start(
    tmp_path: Path, assignments: list[str], words: str
) -> None:
    options = BrokerOptions(config=load_config(None, assignments, {}), data_dir=tmp_path)
    with pytest.raises(StartError, match=words):
        run_broker(options, on_ready=lambda _: None)
