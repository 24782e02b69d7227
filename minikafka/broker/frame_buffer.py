"""Room for a frame that does not come at once."""

from __future__ import annotations

_FIRST_BUFFER_SIZE_BYTES = 16 * 1024
_EARNEST_SIZE_BYTES = 32 * 1024
_LARGE_BUFFER_SIZE_BYTES = 2 * 1024 * 1024


def larger_buffer(beginning: bytearray | memoryview, size: int) -> bytearray:
    """A buffer for a frame of ``size`` bytes, of which the beginning is here.

    It grows with what arrives: who announces 100 MB gets no 100 MB, and thousands who send a head
    each get little. Who has sent some really gets room for most frames at once, for to grow is
    to copy.
    """
    filled = len(beginning)
    if filled < _EARNEST_SIZE_BYTES:
        room = max(2 * filled, _FIRST_BUFFER_SIZE_BYTES)
    else:
        room = max(2 * filled, _LARGE_BUFFER_SIZE_BYTES)
    buffer = bytearray(min(size, room))
    buffer[:filled] = beginning
    return buffer
