"""A new API needs a message, a handler and a row of the table: a forgotten one fails here."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from minikafka.broker import handlers
from minikafka.broker.handlers import API_TABLE, Handler

ROWS = sorted(API_TABLE.values(), key=lambda row: row.api_key)
EVERY_ROW = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api_key.title)


def test_every_handler_has_a_row() -> None:
    modules = {module.name for module in iter_modules(handlers.__path__)}
    serving = {
        name for name in modules if hasattr(import_module(f"{handlers.__name__}.{name}"), "handle")
    }
    assert serving == {row.api_key.name.lower() for row in ROWS}


@EVERY_ROW
def test_a_row_serves_versions_that_the_message_has(row: Handler) -> None:
    versions = row.request_class.VERSIONS
    assert versions.first <= row.first_version <= row.last_version <= versions.last


@EVERY_ROW
def test_a_handler_says_which_versions_it_serves(row: Handler) -> None:
    """Its docstring begins with the API and the range that the table has."""
    module = import_module(f"{handlers.__name__}.{row.api_key.name.lower()}")
    first, last = row.first_version, row.last_version
    expected = f"{first}-{last}" if first != last else f"{first}"
    found = re.match(rf"{row.api_key.title} (\d+(?:-\d+)?)\b", module.__doc__ or "")
    assert found is not None, module.__doc__
    assert found[1] == expected
