"""Warnings of the client: only what lasts, and that once."""

import logging
from collections.abc import Iterator

import pytest

from minikafka.cli.lasting_trouble import hide_warnings, show_lasting_trouble

NAME = "tests.noisy_library"
log = logging.getLogger(NAME)


@pytest.fixture(autouse=True)
def quiet_afterwards() -> Iterator[None]:
    hide_warnings(NAME)
    yield
    log.handlers.clear()
    log.propagate = True


def test_hidden_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        log.warning("the same")
    assert capsys.readouterr().err == ""


def test_what_is_repeated_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    show_lasting_trouble(NAME)
    for number in range(4):
        log.warning("try %d\nfailed", number)
        log.info("noise")
    log.warning("once")
    assert capsys.readouterr().err == "try 1; failed\n"
