"""What the tests of the page for browsers need: Node, npm and Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.chromium import Page, browser, find_chromium
from tests.lab.web import machines


@pytest.fixture(scope="session")
def node() -> None:
    why = machines.missing()
    if why is not None:
        pytest.skip(why)


@pytest.fixture(scope="module")
def page(node: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    folder = tmp_path_factory.mktemp("site")
    with browser(program, folder / "profile") as found:
        machines.open_site(found, folder / "site")
        yield found
        assert found.console == []
        assert all(one.startswith(("file:", "data:", "blob:")) for one in found.requested)
