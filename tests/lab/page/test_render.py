"""The report is one file: everything is in it, and nothing that a document says can leave it."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.lab.page import SCRIPTS, asset, json_in_html, render
from tests.lab.page import documents

FETCHING = {"src", "href", "srcset", "data", "action", "poster", "background"}


@cache
def document() -> dict[str, Any]:
    return documents.document()


@cache
def report() -> str:
    return render(document())


class Elements(HTMLParser):
    """Collects scripts and what elements refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in FETCHING]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.scripts:
            self.scripts[-1] += data


def test_nothing_is_referred_to_outside_of_the_file() -> None:
    found = Elements(report())
    assert found.references
    assert all(one.startswith(("#", "data:")) for one in found.references)
    assert "default-src 'none'" in report()


@pytest.mark.parametrize("name", [*SCRIPTS, "lab.css", "report.html"])
def test_no_part_of_the_page_names_an_address(name: str) -> None:
    allowed = {"http://www.w3.org/2000/svg"}  # the name of SVG; nobody asks for it
    found = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", asset(name)))
    assert found <= allowed
    assert "@import" not in asset(name)
    assert "url(" not in asset(name)
    assert "</script" not in asset(name) or name == "report.html"


def test_every_script_and_the_style_are_inside() -> None:
    assert all(asset(name) in report() for name in (*SCRIPTS, "lab.css"))
    assert "{{" not in report().replace("{{}}", "")


def test_a_document_comes_out_as_it_went_in() -> None:
    inside = [one for one in Elements(report()).scripts if one.startswith("{")]
    assert json.loads(inside[0]) == document()


@pytest.mark.parametrize(
    "text",
    [
        "</script><b>",
        "<!--",
        "<!--<script>",
        "\u2028 \u2029",
        "{{scripts}} {{document}}",
        "]]>&amp;",
    ],
)
def test_text_stays_text(text: str) -> None:
    claim = document()["claims"][0] | {"statement": text}
    small = {"minikafka": text, "engines": {}, "claims": [claim]}
    page = render(small)
    found = Elements(page)
    assert found.tags.count("script") == len(SCRIPTS) + 2
    inside = [one for one in found.scripts if one.startswith("{")]
    assert json.loads(inside[0]) == small


@given(st.text())
def test_json_in_html_has_nothing_that_html_or_javascript_reads(text: str) -> None:
    found = json_in_html({text: text})
    assert found.isascii()
    assert not set(found) & set("<>&")
    assert json.loads(found) == {text: text}


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        render({"seconds": float("nan")})


def test_a_name_of_no_part_is_refused() -> None:
    with pytest.raises(FileNotFoundError):
        asset("scrubber.css")
