"""Tells what happened in a run: the faults, and what became of the record that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from .observing import Fate, Sent
from .outcome import commits_in

if TYPE_CHECKING:
    from .cluster import Run
    from .judging import Violation

_VIOLATIONS_MAX: Final = 5


def story_of(run: Run, violations: Sequence[Violation]) -> str:
    """The story of a run, as text of several lines."""
    lines = [f"seed {run.seed}: {_verdict(violations)}"]
    lines += [f"  {one}" for one in violations[:_VIOLATIONS_MAX]]
    if len(violations) > _VIOLATIONS_MAX:
        lines.append(f"  and {len(violations) - _VIOLATIONS_MAX} more")
    about = violations[0] if violations else None
    if about is not None and about.topic:
        lines.append(f"what happened, and when this happened to {_name(about)} (marked by *):")
    else:
        lines.append("what happened:")
    marked = [] if about is None else [(at_s, f"* {text}") for at_s, text in _life_of(run, about)]
    lines += run.story.merged(marked)
    return "\n".join(lines)


def _verdict(violations: Sequence[Violation]) -> str:
    if not violations:
        return "everything holds"
    kinds = sorted({one.kind for one in violations})
    return f"{len(violations)} violations ({', '.join(kinds)})"


def _name(about: Violation) -> str:
    value = "" if about.value is None else f"{about.value!r}"[1:60]
    offset = "" if about.offset < 0 else f" (offset {about.offset})"
    place = about.topic if about.partition < 0 else f"{about.topic}-{about.partition}"
    return f"{value or 'a record'} of {place}{offset}"


def _life_of(run: Run, about: Violation) -> Iterator[tuple[float, str]]:
    """What clients and brokers did with a record."""
    place = about.topic, about.partition
    for sent in run.seen.sent:
        if (sent.topic, sent.key, sent.value) == (about.topic, about.key, about.value):
            yield from _sending(sent)
    for led in run.story.led:
        if led.place == place:
            leader = f"broker {led.leader} leads" if led.leader > 0 else "nobody leads"
            yield led.at_s, f"{leader} {place[0]}-{place[1]}"
    if about.offset < 0:
        return
    for one in run.seen.consumed:
        if (one.place, one.offset) == (place, about.offset):
            yield one.at_s, f"consumed by {one.life}"
    for done in run.seen.processed:
        if (done.place, done.offset) == (place, about.offset):
            yield done.at_s, f"processed by {done.life}"
    passed: dict[str, bool] = {}
    for commit in commits_in(run.stored):
        if commit.place != place:
            continue
        is_past = commit.offset > about.offset
        if is_past and not passed.get(commit.group):
            text = f"group {commit.group!r} commits offset {commit.offset}, which is behind it"
            yield commit.at_s, text
        elif not is_past and passed.get(commit.group):
            yield commit.at_s, f"group {commit.group!r} commits offset {commit.offset} again"
        passed[commit.group] = is_past


def _sending(sent: Sent) -> Iterator[tuple[float, str]]:
    where = "" if sent.partition < 0 else f"-{sent.partition}"
    yield sent.at_s, f"sent to {sent.topic}{where} by {sent.life}"
    if sent.fate is Fate.DONE:
        at = f"at offset {sent.offset}" if sent.offset >= 0 else "without an offset"
        yield sent.done_at_s, f"acknowledged to {sent.life} {at}"
    elif sent.fate is Fate.FAILED:
        yield sent.done_at_s, f"{sent.life} learns that it failed: {sent.error}"
