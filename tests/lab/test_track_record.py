"""The table of defects in the docs is the one that can be run."""

from __future__ import annotations

from tests.lab.track_record import DEFECTS, ROOT, table


def test_the_docs_have_the_table() -> None:
    assert table() in (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")


def test_each_defect_names_its_tests() -> None:
    assert len({one.name for one in DEFECTS}) == len(DEFECTS)
    for one in DEFECTS:
        assert one.tests, one.name
