"""The records of share groups, in Kafka's formats."""

from __future__ import annotations

from collections.abc import Callable

from ..records import Entry

SHARE_GROUP_DECODERS: dict[int, Callable[[int, bytes, bytes | None], Entry]] = {}
"""By the version of the key."""
