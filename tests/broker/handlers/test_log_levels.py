"""Log levels as a config resource (KIP-412) over the wire."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import incremental_alter_configs
from tests.broker.handlers.config_requests import (
    APPEND,
    BROKER_LOGGER,
    DELETE,
    FROM_LOGGER,
    SET,
    change,
    entries,
)
from tests.kit.in_process import running_broker

LOGGER = "minikafka.broker.control.controller"


@pytest.fixture
def _levels() -> Generator[None]:
    """Puts log levels back."""
    loggers = [logging.root, logging.getLogger(LOGGER)]
    before = [one.level for one in loggers]
    yield
    for one, level in zip(loggers, before, strict=True):
        one.setLevel(level)


@pytest.mark.usefixtures("_levels")
async def test_log_levels_are_shown_and_changed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        logging.root.setLevel(logging.WARNING)
        shown = await entries(client, BROKER_LOGGER, "1", ["root", LOGGER])
        assert {name: one.value for name, one in shown.items()} == {"root": "WARN", LOGGER: "WARN"}
        assert {one.config_source for one in shown.values()} == {FROM_LOGGER}
        assert len(await entries(client, BROKER_LOGGER, "1")) > 2
        to_debug = (LOGGER, SET, "DEBUG")
        assert await change(client, BROKER_LOGGER, "1", to_debug, validate_only=True) == 0
        assert logging.getLogger(LOGGER).level == logging.NOTSET
        assert await change(client, BROKER_LOGGER, "1", to_debug, ("root", SET, "ERROR")) == 0
        assert logging.getLogger(LOGGER).level == logging.DEBUG
        assert logging.root.level == logging.ERROR
        assert await change(client, BROKER_LOGGER, "1", (LOGGER, DELETE, None)) == 0
        shown = await entries(client, BROKER_LOGGER, "1", [LOGGER])
        assert shown[LOGGER].value == "ERROR"


@pytest.mark.usefixtures("_levels")
async def test_a_level_finer_than_all_is_shown_as_the_finest(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        logging.root.setLevel(1)
        shown = await entries(under_test.connect(), BROKER_LOGGER, "1", ["root"])
        assert shown["root"].value == "TRACE"


@pytest.mark.parametrize(
    ("name", "logger_change", "code"),
    [
        ("2", (LOGGER, SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("1", ("no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("1", (LOGGER, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("1", (LOGGER, SET, None), ErrorCode.INVALID_CONFIG),
        ("1", (LOGGER, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ("1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_impossible_log_levels_are_refused_with_all_others(
    tmp_path: Path, name: str, logger_change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        before = logging.root.level
        other = ("root", SET, "FATAL")
        if logger_change[0] == "root":
            other = (LOGGER, SET, "FATAL")
        assert await change(client, BROKER_LOGGER, name, other, logger_change) == code
        assert (logging.root.level, logging.getLogger(LOGGER).level) == (before, logging.NOTSET)


async def test_loggers_are_named_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        resource = incremental_alter_configs.Resource(
            resource_type=BROKER_LOGGER, resource_name="1", configs=[]
        )
        request = incremental_alter_configs.Request(
            resources=[resource, resource], validate_only=False
        )
        response = await under_test.connect().ask(request, 1, incremental_alter_configs.Response)
        codes = {one.error_code for one in response.responses}
        assert codes == {ErrorCode.INVALID_REQUEST}
