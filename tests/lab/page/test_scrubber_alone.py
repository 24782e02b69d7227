"""The scrubber on a page that is not the report."""

from __future__ import annotations

import json
from pathlib import Path

from minikafka.lab.page import SCRIPTS, asset
from tests.kit.chromium import Page
from tests.lab.page import documents


def test_a_page_of_its_own_may_use_the_scrubber(chromium: Page, tmp_path: Path) -> None:
    timeline = json.dumps(documents.timeline(records=5))
    scripts = "".join(f"<script>{asset(name)}</script>" for name in SCRIPTS[:2])
    file = tmp_path / "own.html"
    file.write_text(
        f"<style>{asset('lab.css')}</style><div id=place></div>{scripts}<script>"
        f"const frames = []; const own = new Scrubber(place, {timeline},"
        "{index: 3, onFrame: (frame) => frames.push(frame.index)});"
        "own.goTo(7); own.update(own.model.timeline); own.destroy();</script>"
    )
    chromium.open(file)
    assert chromium.evaluate("[frames.includes(3), frames.at(-1), place.childNodes.length]") == [
        True,
        7,
        0,
    ]


def test_a_run_may_grow_from_nothing(chromium: Page, tmp_path: Path) -> None:
    timeline = documents.timeline(records=8)
    empty = timeline | {"events": [], "records": {}}
    scripts = "".join(f"<script>{asset(name)}</script>" for name in SCRIPTS[:2])
    file = tmp_path / "growing.html"
    file.write_text(
        f"<style>{asset('lab.css')}</style><div id=place></div>{scripts}"
        f"<script>const own = new Scrubber(place, {json.dumps(empty)});</script>"
    )
    chromium.open(file)
    now = "document.querySelector('.now').textContent"
    assert "Nothing has happened yet" in chromium.evaluate(now)
    for key in ("ArrowRight", "Enter", "End"):
        chromium.evaluate("document.querySelector('input').focus()")
        chromium.press(key)
    chromium.evaluate(f"own.update({json.dumps(timeline)})")
    # Who is at the end of a run stays there while it goes on.
    assert timeline["events"][-1]["text"] in chromium.evaluate(now)
    chromium.press("Home")
    assert timeline["events"][0]["text"] in chromium.evaluate(now)
    assert chromium.evaluate("Number.isFinite(own.track.from)")
    chromium.press("End")
    read = [one for one in timeline["events"] if one["lane"] == "consumer" and "state" in one]
    found = {name: value for one in read for name, value in one["state"].items()}
    marks = chromium.evaluate(
        "[...document.querySelectorAll('.consumer g text')].map((one) => one.textContent)"
    )
    assert found["position"] > 0
    assert marks == [f"position {found['position']}", f"committed {found['committed']}"]
    assert chromium.console == []


def test_a_text_that_begins_with_its_lane_says_it_once(chromium: Page, tmp_path: Path) -> None:
    texts = {"node-1": ["node 1 appends r0", "node 12 is told", "node-1: is up"], "p": ["sends"]}
    lanes = [{"id": "node-1", "kind": "broker", "title": "node 1"}]
    timeline = {"lanes": lanes, "records": {}, "title": "", "events": []}
    file = tmp_path / "told.html"
    file.write_text("".join(f"<script>{asset(name)}</script>" for name in SCRIPTS[:2]))
    chromium.open(file)
    told = chromium.evaluate(
        f"Object.entries({json.dumps(texts)}).flatMap(([lane, texts]) => texts.map((text) =>"
        f" new TimelineModel({json.dumps(timeline)}).told({{lane, text}}).join(' | ')))"
    )
    assert told == [
        "node 1 | appends r0",
        "node 1 | node 12 is told",
        "node 1 | is up",
        "p | sends",
    ]


def test_a_message_arrives_where_its_event_is(chromium: Page, tmp_path: Path) -> None:
    """Also when other events have the same time."""
    lanes = [{"id": name, "kind": "broker", "title": name} for name in ("a", "b")]
    sent = {"t": 0.0, "lane": "a", "kind": "send", "text": "", "record": "r", "to": "b"}
    events = [sent | {"arrives": 1.0}] + [
        {"t": 1.0, "lane": lane, "kind": "note", "text": "", "record": record}
        for lane, record in (("a", "r"), ("b", "q"), ("b", "r"), ("a", "r"), ("b", "r"))
    ]
    timeline = {"lanes": lanes, "records": {}, "title": "", "events": events}
    file = tmp_path / "arrives.html"
    file.write_text("".join(f"<script>{asset(name)}</script>" for name in SCRIPTS[:2]))
    chromium.open(file)
    model = f"new TimelineModel({json.dumps(timeline)})"
    found = chromium.evaluate(
        f"[{model}.arrival({model}.events[0]), {model}.arrival({{arrives: 0.5, to: 'b'}})]"
    )
    assert found == [3, -1]
