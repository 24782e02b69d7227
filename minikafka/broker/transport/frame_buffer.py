"""Room for a frame that does not come at once."""

from __future__ import annotations

_FIRST_BUFFER_SIZE_BYTES = 16 * 1024
_EARNEST_SIZE_BYTES = 32 * 1024
_LARGE_BUFFER_SIZE_BYTES = 2 * 1024 * 1024


def larger_buffer(beginning: bytearray | memoryview, size: int) -> bytearray:
    """A buffer for a frame of ``size`` bytes, of which the beginning is here.

    Announcing 100 MB reserves nothing, so thousands of peers that send a head each cost little.
    Growing copies, so a peer that has really sent 32 KiB gets room for most frames at once.
    """
    filled = len(beginning)
    buffer = bytearray(larger_size(filled, size))
    buffer[:filled] = beginning
    return buffer


def larger_size(filled: int, size: int) -> int:
    """The size of the `larger_buffer`."""
    if filled < _EARNEST_SIZE_BYTES:
        return min(size, max(2 * filled, _FIRST_BUFFER_SIZE_BYTES))
    return min(size, max(2 * filled, _LARGE_BUFFER_SIZE_BYTES))
