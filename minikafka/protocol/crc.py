"""CRC-32C (Castagnoli), the checksum of record batches, over any kind of buffer.

google-crc32c accepts only bytes objects, so a view has to be copied first. Copied in pieces that
stay in the processor's cache, copy and CRC together take no longer than the CRC of cold memory
alone (measured: 75 microseconds instead of 85 for 1 MiB).
"""

from collections.abc import Callable
from typing import Final, cast

import google_crc32c

# The package is untyped; these two functions are all we use.
_value: Final = cast("Callable[[bytes], int]", google_crc32c.value)  # pyright: ignore[reportUnknownMemberType]
_extend: Final = cast("Callable[[int, bytes], int]", google_crc32c.extend)  # pyright: ignore[reportUnknownMemberType]

_PIECE_SIZE_BYTES: Final = 256 * 1024


def crc32c(buffer: bytes | bytearray | memoryview, start: int = 0, end: int | None = None) -> int:
    """CRC-32C of `buffer[start:end]`, as an unsigned 32-bit integer."""
    if end is None:
        if not start and isinstance(buffer, bytes):
            return _value(buffer)
        end = len(buffer)
    if end - start <= _PIECE_SIZE_BYTES:
        return _value(bytes(buffer[start:end]))
    return extend_crc32c(0, buffer, start, end)


def extend_crc32c(
    crc: int, buffer: bytes | bytearray | memoryview, start: int = 0, end: int | None = None
) -> int:
    """CRC-32C of the bytes that `crc` is the checksum of, followed by `buffer[start:end]`."""
    if end is None:
        end = len(buffer)
    if isinstance(buffer, bytes) and start == 0 and end == len(buffer):
        return _extend(crc, buffer)
    view = memoryview(buffer)
    for piece_start in range(start, end, _PIECE_SIZE_BYTES):
        piece_end = min(piece_start + _PIECE_SIZE_BYTES, end)
        crc = _extend(crc, bytes(view[piece_start:piece_end]))
    return crc
