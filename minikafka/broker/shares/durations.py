"""ISO 8601 durations, as ``share.auto.offset.reset=by_duration:PnDTnHnMn.nS`` has them."""

from __future__ import annotations

import re

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


def milliseconds_of(duration: str) -> int:
    """The milliseconds of a duration that is not negative.

    Raises:
        ValueError: the text is no such duration.
    """
    found = _DURATION.fullmatch(duration)
    if found is None or not any(found.groups()) or duration[-1] in "Tt":
        raise ValueError(f"{duration!r} is not a duration such as P3D or PT1H30M or PT0.5S")
    days, hours, minutes = (int(found[name] or 0) for name in ("days", "hours", "minutes"))
    seconds = float(found["seconds"] or 0)
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + round(seconds * 1000)
