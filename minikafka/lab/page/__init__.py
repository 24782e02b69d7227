"""The lab's report: one HTML file that needs nothing else, neither a server nor a network.

`render` takes the document of `minikafka.lab.results`. The parts of the page lie beside this file;
another page may use them, too (`asset`). They are classic scripts, each with one global name, and
come in the order of `SCRIPTS`:

    dom.js       Dom       makes elements
    scrubber.js  Scrubber  moves through one timeline, alone or coupled to another
    plots.js     Plots     lines, bars and percentiles as SVG
    report.js    Report    the report: claims, two timelines side by side, the matrix, plots
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any, Final

SCRIPTS: Final = ("dom.js", "scrubber.js", "plots.js", "report.js")
_PLACE = re.compile(r"\{\{([a-z.]+)\}\}")


def asset(name: str) -> str:
    """The text of a part of the page, such as ``scrubber.js`` or ``lab.css``.

    Raises:
        FileNotFoundError: there is no such part.
    """
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def json_in_html(document: object) -> str:
    """JSON that may stand inside a script element, and in JavaScript.

    Only ASCII, so that no separator of lines or foreign encoding matters; no ``<``, so that nothing
    in it ends the element or begins a comment.
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def render(document: Mapping[str, Any]) -> str:
    """The report as one HTML file.

    Args:
        document: of the form that `minikafka.lab.results` describes. ``side_by_side``,
            ``timelines`` and ``plots`` may be absent.

    Raises:
        ValueError: the document has a number that JSON does not have (NaN or an infinity).
    """
    parts = {
        "title": escape(f"Delivery lab of minikafka {document.get('minikafka', '')}".strip()),
        "lab.css": asset("lab.css"),
        "document": json_in_html(document),
        "scripts": "\n".join(f"<script>\n{asset(name)}</script>" for name in SCRIPTS),
    }
    return _fill(asset("report.html"), parts)


def render_timeline(timeline: Mapping[str, Any]) -> str:
    """One timeline as one HTML file.

    Args:
        timeline: of the form that `minikafka.lab.timeline` describes; its ``faults``, in words, and
            its ``fingerprint`` may be there, too.

    Raises:
        ValueError: it has a number that JSON does not have.
    """
    parts = {
        "title": escape(timeline["title"]),
        "scenario": escape(timeline["scenario"]),
        "faults": "".join(f"<li>{escape(one)}</li>" for one in timeline.get("faults", ())),
        "lab.css": asset("lab.css"),
        "document": json_in_html(timeline),
        "scripts": "\n".join(
            f"<script>\n{asset(name)}</script>" for name in ("dom.js", "scrubber.js")
        ),
    }
    return _fill(asset("timeline.html"), parts)


def _fill(page: str, parts: Mapping[str, str]) -> str:
    # All at once: what is put in is not looked at again.
    return _PLACE.sub(lambda place: parts[place[1]], page)
