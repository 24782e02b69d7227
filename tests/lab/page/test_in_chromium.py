"""The report in a browser: its scrubber moved by keys, its console empty, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from minikafka.lab.page import render
from tests.kit.chromium import Page
from tests.lab.page import documents

UNEXPECTED = "acksall-at-least-once"

# What a scrubber shows, read from the page: the words of its lanes, the boxes of their logs, the
# event, the time, and what a screen reader was told.
SHOWN = """(() => {
  const root = document.querySelectorAll('.scrubber')[NUMBER];
  const lanes = {};
  for (const lane of root.querySelectorAll('.lane-state')) lanes[lane.dataset.lane] = {
    standing: lane.querySelector('.lane-standing')?.textContent ?? '',
    boxes: [...lane.querySelectorAll('.box text')].map((one) => one.textContent),
    below: lane.querySelectorAll('.box.below').length,
    end: lane.querySelector('.log-end')?.textContent,
    position: lane.querySelector('.position text')?.textContent,
  };
  return {
    lanes, said: root.querySelector('[role=status]').textContent,
    now: root.querySelector('.now').textContent,
    value: Number(root.querySelector('input[type=range]').value),
    words: root.querySelector('.state svg').getAttribute('aria-label'),
  };
})()"""


@cache
def document() -> dict[str, Any]:
    return documents.document(unexpected=UNEXPECTED)


def side(number: int) -> dict[str, Any]:
    """One of the two timelines that are shown side by side."""
    found: dict[str, Any] = document()["timelines"][document()["side_by_side"][number]]
    return found


def fault(number: int) -> int:
    """The event with which its first fault happens."""
    events = side(number)["events"]
    return next(i for i, one in enumerate(events) if one["kind"] == "kill")


@pytest.fixture(scope="module")
def page(chromium: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render(document()), encoding="utf-8")
    chromium.size(1280, 900)
    chromium.prefer(prefers_reduced_motion="reduce")
    chromium.open(file)
    yield chromium
    # Whatever the tests did, it made no noise and asked for nothing but the file itself.
    assert chromium.console == []
    assert [one for one in chromium.requested if not one.startswith("data:")] == [file.as_uri()]


def shown(page: Page, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(SHOWN.replace("NUMBER", str(number)))
    return found


def focus(page: Page, selector: str) -> None:
    page.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")


def told(timeline: dict[str, Any], event: dict[str, Any]) -> str:
    """What happens, after the name of the lane."""
    title = next(one["title"] for one in timeline["lanes"] if one["id"] == event["lane"])
    text: str = event["text"]
    return text.removeprefix(event["lane"]).removeprefix(title).lstrip(" :")


def states(timeline: dict[str, Any], index: int) -> dict[str, dict[str, Any]]:
    """The state of each lane after an event, as the form of a timeline defines it."""
    found: dict[str, dict[str, Any]] = {lane["id"]: {} for lane in timeline["lanes"]}
    for event in timeline["events"][: index + 1]:
        found[event["lane"]].update(event.get("state", {}))
    return found


def logs(timeline: dict[str, Any], index: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {lane["id"]: [] for lane in timeline["lanes"]}
    for event in timeline["events"][: index + 1]:
        log, end = found[event["lane"]], event.get("state", {}).get("log_end_offset")
        if event["kind"] in {"append", "replicate"}:
            log[end - 1 :] = [event["record"]]
        elif end is not None:
            del log[end:]
    return found


def check_state(page: Page, timeline: dict[str, Any], index: int) -> None:
    now, expected = shown(page), states(timeline, index)
    assert now["value"] == index
    event = timeline["events"][index]
    assert f"{event['t']:.4f} s" in now["now"]
    assert told(timeline, event) in now["now"]
    for lane in timeline["lanes"]:
        state = expected[lane["id"]]
        if lane["kind"] == "broker" and state:
            there = now["lanes"][lane["id"]]
            log = logs(timeline, index)[lane["id"]]
            assert log[-len(there["boxes"]) or len(log) :] == there["boxes"]
            first = len(log) - len(there["boxes"])
            assert there["below"] == max(0, min(state["high_watermark"], len(log)) - first)
            assert there["end"] == str(state["log_end_offset"])
            assert ("leader" in there["standing"]) is (state["is_leader"] and state["is_up"])
            assert ("down" in there["standing"]) is not state["is_up"]
            assert f"epoch {state['leader_epoch']}" in there["standing"]


def test_claims_come_with_stamp_sentence_and_counts(page: Page) -> None:
    rows = page.evaluate(
        "[...document.querySelectorAll('tr.claim')].map((row) => [row.querySelector('.stamp')"
        ".textContent, row.querySelector('.statement').textContent,"
        " row.querySelector('.engine .why').textContent, row.classList.contains('loud')])"
    )
    assert rows == [
        [
            one["verdict"].upper(),
            one["statement"],
            one["engines"]["simulation"]["why"],
            one["id"] == UNEXPECTED,
        ]
        for one in document()["claims"]
    ]
    head = page.evaluate("document.querySelector('.head').textContent")
    assert "Not as expected: 1 of" in head
    assert "not run: no Java on this machine" in head
    assert "recorded 20 November 2026" in head


def test_two_timelines_begin_at_the_fault(page: Page) -> None:
    check_state(page, side(0), fault(0))
    assert f"{side(1)['events'][fault(1)]['t']:.4f} s" in shown(page, 1)["now"]
    assert shown(page, 1)["value"] >= fault(1)


def test_keys_move_the_scrubber(page: Page) -> None:
    focus(page, ".scrubber input[type=range]")
    page.press("Home")
    last = len(side(0)["events"]) - 1
    for _ in range(12):
        page.press("ArrowRight")
    check_state(page, side(0), 12)
    assert told(side(0), side(0)["events"][12]) in shown(page)["said"]
    page.press("ArrowLeft")
    check_state(page, side(0), 11)
    page.press("End")
    check_state(page, side(0), last)
    page.press("ArrowLeft", shift=True)
    t = side(0)["events"][last]["t"] - 1
    index = max([i for i, one in enumerate(side(0)["events"]) if one["t"] <= t], default=0)
    assert shown(page)["value"] == index
    page.press("Home")
    check_state(page, side(0), 0)


def test_the_other_timeline_goes_along(page: Page) -> None:
    focus(page, ".scrubber input[type=range]")
    page.press("Home")
    for _ in range(40):
        page.press("ArrowRight")
    t, here, there = (
        side(number)["events"][index]["t"]
        for number, index in ((0, 40), (0, fault(0)), (1, fault(1)))
    )
    # Aligned at the fault: after it both go equally fast, before it they begin together.
    t = t - here + there if t >= here else t * (there / here)
    index = max(i for i, one in enumerate(side(1)["events"]) if one["t"] <= t)
    assert shown(page, 1)["value"] == index


def test_space_plays_and_pauses(page: Page) -> None:
    focus(page, ".scrubber input[type=range]")
    page.press("Home")
    page.press(" ")
    play = "document.querySelector('.scrubber .play').textContent"
    assert page.evaluate(play) == "Pause"
    # Settles as soon as it has moved; frames come only while it plays.
    page.evaluate(
        "new Promise((done) => { const slider = document.querySelector('.scrubber input');"
        "const look = () => slider.value > 0 ? done() : requestAnimationFrame(look); look(); })"
    )
    page.press(" ")
    assert page.evaluate(play) == "Play"
    check_state(page, side(0), shown(page)["value"])


def test_enter_follows_a_record_and_escape_leaves_it(page: Page) -> None:
    focus(page, ".scrubber input[type=range]")
    page.press("Home")
    event = next(i for i, one in enumerate(side(0)["events"]) if one.get("record") == "r1")
    for _ in range(event):
        page.press("ArrowRight")
    page.press("Enter")
    story = (
        "[...document.querySelector('.scrubber .story').querySelectorAll('li')]"
        ".map((one) => one.textContent)"
    )
    lines = page.evaluate(story)
    events = [one for one in side(0)["events"] if one.get("record") == "r1"]
    assert len(lines) == len(events)
    pairs = zip(events, lines, strict=True)
    assert all(told(side(0), one) in words for one, words in pairs)
    assert "Following r1" in shown(page)["said"]
    page.press("Escape")
    assert page.evaluate(story) == []


def test_a_lost_record_says_so(page: Page) -> None:
    lost = [name for name, one in side(0)["records"].items() if one["copies"] == 0]
    page.evaluate("document.querySelector('.ends button').click()")
    story = page.evaluate("document.querySelector('.scrubber .story').textContent")
    assert story.startswith(f"Record {lost[0]}")
    assert "It is lost." in story
    page.evaluate("document.querySelector('.story .leave').click()")


def test_the_first_difference_is_marked(page: Page) -> None:
    pairs = enumerate(zip(side(0)["events"], side(1)["events"], strict=False))
    index = next(i for i, (one, other) in pairs if one != other)
    words = page.evaluate("document.querySelector('.parting').textContent")
    assert f"{side(0)['events'][index]['t']:.4f} s" in words
    page.evaluate("document.querySelector('.parting button').click()")
    check_state(page, side(0), index)


def test_a_claim_opens_its_timeline(page: Page) -> None:
    before = page.evaluate("document.querySelectorAll('.scrubber').length")
    page.evaluate("document.querySelector('.claim button.opener').click()")
    assert page.evaluate("document.querySelectorAll('.scrubber').length") == before + 1
    # The key moves this one: opening it has put the focus there.
    page.press("Home")
    check_state(page, side(0), 0)
    page.evaluate("document.querySelector('.claim button.opener').click()")
    assert (
        page.evaluate("[...document.querySelectorAll('.opened')].every((one) => one.hidden)")
        is True
    )


def test_cells_of_the_matrix_are_found_by_keys(page: Page) -> None:
    first = document()["cells"][0]
    page.evaluate("document.querySelector('.heat td[tabindex=\"0\"]').focus()")
    here = "document.activeElement.dataset.cell"
    assert page.evaluate(here) == first["id"]
    page.press("ArrowRight")
    assert page.evaluate(here) == document()["cells"][1]["id"]
    page.press("ArrowDown")
    below = page.evaluate(here)
    assert below.endswith("_f.request-lost")
    assert below.startswith("p.acks0_t.r3-m1")
    page.press("Enter")
    details = page.evaluate("document.querySelector('.cell-details').textContent")
    cell = next(one for one in document()["cells"] if one["id"] == below)
    assert f"lost in {cell['engines']['simulation']['runs_with']['lost']}" in details
    assert f"minikafka lab replay '{cell['engines']['simulation']['examples']['lost']}'" in details


def test_a_tab_shows_another_effect(page: Page) -> None:
    focus(page, "[role=tab][aria-selected=true]")
    page.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "Repeated"
    cell = next(
        one
        for one in document()["cells"]
        if one["engines"]["simulation"]["runs_with"].get("repeated", 0) > 0
    )
    found = cell["engines"]["simulation"]
    text = page.evaluate(f"document.querySelector('[data-cell=\"{cell['id']}\"]').textContent")
    assert text == str(round(100 * found["runs_with"]["repeated"] / found["runs"]))


@pytest.mark.parametrize("width", [360, 800, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(page: Page, width: int, scheme: str) -> None:
    page.size(width, 800)
    page.prefer(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.size(1280, 900)
    assert wide <= width


def test_a_long_run_keeps_few_elements(page: Page) -> None:
    """Events are drawn, not elements, and the log shows what fits."""
    timeline = documents.timeline(records=2400)
    assert len(timeline["events"]) > 19_000
    script = (
        "const place = document.createElement('div'); document.body.append(place);"
        f"const long = new Scrubber(place, {json.dumps(timeline)});"
        "long.goTo(long.model.length - 1);"
    )
    page.evaluate(f"(() => {{ {script} }})()")
    elements = page.evaluate("document.body.lastChild.querySelectorAll('*:not(option)').length")
    value = page.evaluate("document.body.lastChild.querySelector('input').value")
    page.evaluate("document.body.lastChild.remove()")
    assert elements < 1_000
    assert value == str(len(timeline["events"]) - 1)
