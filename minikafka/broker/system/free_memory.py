"""What the process keeps of memory that it has freed."""

from __future__ import annotations

import ctypes
from typing import Any, Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Numbers of malloc.h."""

_LARGE_BYTES: Final = 4 * 1024 * 1024
_KEPT_BYTES: Final = 8 * 1024 * 1024
_ARENAS: Final = 2


def give_back_what_is_free() -> None:
    """Have malloc return large free memory to the operating system; for the whole process.

    By default glibc keeps for later what a large request has needed, in each of many arenas: eight
    clients that send compressed batches of 150 MB of zeros leave 90 MB behind. Two arenas are
    enough, because threads of Python seldom allocate at the same time. Other C libraries are left
    as they are.
    """
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, _ARENAS)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
