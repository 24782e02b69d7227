"""How the records of consumer groups change the stored state."""

from __future__ import annotations

from ..context import Replay
from ..records import Entry

CONSUMER_REPLAY: dict[type[Entry], Replay] = {}
