"""Addresses: what a broker listens on and what clients are told."""

from pathlib import Path

import pytest

from minikafka.broker.addresses import parse_address, render_address
from minikafka.broker.config import load_config
from minikafka.broker.run import BrokerOptions, StartError, run_broker
from minikafka.metadata.settings import InvalidSettingError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("PLAINTEXT://10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_addresses_are_read_and_written_alike(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected
    assert render_address(*expected) == text.removeprefix("PLAINTEXT://")


@pytest.mark.parametrize("text", ["localhost", "host:", "host:65536", "host:-1", "SSL://host:1"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text.rpartition("/")[2]):
        parse_address(text)


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["listeners=PLAINTEXT://0.0.0.0:0"], "--advertise"),
        (["listeners=a:1,b:2"], "one listener"),
        (["listeners="], "one listener"),
        (["listeners=nowhere"], "HOST:PORT"),
        (["listeners=127.0.0.1:0", "advertised.listeners=nowhere"], "HOST:PORT"),
        (["listeners=host.invalid:0"], "cannot listen"),
    ],
)
def test_addresses_that_cannot_be_used_stop_the_start(
    tmp_path: Path, assignments: list[str], words: str
) -> None:
    options = BrokerOptions(config=load_config(None, assignments, {}), data_dir=tmp_path)
    with pytest.raises(StartError, match=words):
        run_broker(options, on_ready=lambda _: None)
