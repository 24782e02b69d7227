"""Large answers: encoded, and freed, in worker threads and piece by piece.

To free a message of 250,000 entries takes as long as to make it, and would be one step that nothing
interrupts, in whichever thread it happens.
"""

from __future__ import annotations

import sys
from typing import Any, Final, cast

from ...protocol.fields import Struct
from ...protocol.frames import encode_response
from ...protocol.schema import Message
from ..transport.transport import FilePayload

_SMALL_SIZE_BYTES: Final = 4096
_JOINED_SIZE_BYTES: Final = 65_536
_LONG_LIST_ENTRIES: Final = 1000
_FREED_AT_ONCE: Final = 200
_REFERENCES_OF_OWN: Final = 3
"""To a list that only its message has, as `sys.getrefcount` counts them here."""


def encode_large(response: Message, version: int, correlation_id: int) -> list[Any]:
    """As `encode_response`, with small buffers joined: it may be a hundred thousand of them."""
    joined: list[Any] = []
    run: list[Any] = []
    size_bytes = 0
    for part in encode_response(response, version, correlation_id):
        is_small = type(part) is not FilePayload and len(part) < _SMALL_SIZE_BYTES
        if run and (not is_small or size_bytes >= _JOINED_SIZE_BYTES):
            joined.append(b"".join(run))
            run, size_bytes = [], 0
        if is_small:
            run.append(part)
            size_bytes += len(part)
        else:
            joined.append(part)
    if run:
        joined.append(b"".join(run))
    return joined


def free(*messages: Message) -> None:
    """Empty the long lists of messages that nobody needs any longer.

    A list that something else refers to is left alone: a handler may have kept it.
    """
    structs: list[Struct] = list(messages)
    while structs:
        struct = structs.pop()
        for field in struct.FIELDS:
            value = cast("list[object] | None", getattr(struct, field.name, None))
            if not isinstance(value, list):
                continue
            if len(value) < _LONG_LIST_ENTRIES:
                structs += [one for one in value if isinstance(one, Struct)]
            elif sys.getrefcount(value) <= _REFERENCES_OF_OWN:
                while value:
                    del value[-_FREED_AT_ONCE:]
