"""A browser for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.chromium import Page, browser, find_chromium


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with browser(program, tmp_path_factory.mktemp("chromium")) as page:
        yield page
