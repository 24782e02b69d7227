"""The newest offset of each key, for compaction; bounded in memory."""

from hashlib import blake2b
from typing import Final

KEYS_MAX: Final = 500_000
"""Keys in one pass: about 100 MB. More keys mean more passes, not more memory."""

_LITERAL_SIZE_BYTES_MAX: Final = 16
_DIGEST_SIZE_BYTES: Final = 20  # longer than any literal, so the two cannot be mixed up


class OffsetMap:
    """Key -> offset of its newest record, from a contiguous range of offsets.

    Attributes:
        end_offset: Every record below it (and at or above where the map began) is in the map.
    """

    __slots__ = ("_keys_max", "_offsets", "end_offset")

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._offsets: dict[bytes, int] = {}
        self._keys_max: Final = keys_max
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """No more keys fit: the range ends here."""
        return len(self._offsets) >= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        """A record with this key is at `offset`, above all offsets before."""
        self._offsets[_short(key)] = offset

    def newest(self, key: bytes) -> int:
        """Offset of the key's newest record, -1 when it is not in the map."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    """A short key itself, a long one's digest (160 bits: no two keys are ever taken for one)."""
    if len(key) <= _LITERAL_SIZE_BYTES_MAX:
        return key
    return blake2b(key, digest_size=_DIGEST_SIZE_BYTES).digest()
