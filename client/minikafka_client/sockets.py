"""Writes to plain sockets past the objects that wrap them: one system call, and no look before."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

SOCKETS_ARE_FILES: Final = sys.platform != "win32"
"""Only where they are can they be read and written by descriptor."""


def unwritten(descriptor: int, buffers: Sequence[Any]) -> list[Any]:
    """Write what the kernel accepts immediately into a non-blocking socket; returns the rest.

    Errors are not raised: sending the rest will meet them too.
    """
    try:
        written = os.writev(descriptor, buffers)
    except OSError:
        return [*buffers]
    for index, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[index + 1 :]]
        written -= len(buffer)
    return []
