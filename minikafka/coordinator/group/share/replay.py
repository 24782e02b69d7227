"""How the records of share groups change the stored state."""

from __future__ import annotations

from ..context import Replay
from ..records import Entry

SHARE_REPLAY: dict[type[Entry], Replay] = {}
