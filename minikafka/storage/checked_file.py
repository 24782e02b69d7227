"""Small files that only this broker reads: msgpack behind a CRC that reveals damage.

    offset size
         0    4 CRC-32C of everything after it
         4      msgpack of [kind, value]

`kind` names what the file holds ("producer-snapshot"), so that a file under the wrong name is
noticed, too. Only this module knows msgpack, which carries no type information.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias, cast

import msgpack

from minikafka.protocol.crc import crc32c
from minikafka.storage.errors import StorageError

Plain: TypeAlias = bool | int | float | str | bytes | Sequence["Plain"] | dict[str, "Plain"] | None
"""What msgpack carries here; tuples come back as lists."""

CHECKED_FILE_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest checked file that is read: checkpoints of 10,000 partitions are a hundredth of it."""

_CRC: Final = Struct(">I")


class DamagedFile(StorageError):
    """A checked file is torn, has a flipped bit, or holds another kind of thing."""


def pack(value: Plain) -> bytes:
    return msgpack.packb(value, use_bin_type=True)


def unpack(content: bytes) -> Plain:
    """The value that was packed.

    Raises:
        ValueError: not msgpack, or something follows it.
    """
    return cast("Plain", msgpack.unpackb(content, raw=False, strict_map_key=True))


def encode_checked(kind: str, value: Plain) -> bytes:
    """Content of a checked file."""
    body = pack([kind, value])
    return _CRC.pack(crc32c(body)) + body


def decode_checked(kind: str, content: bytes, *, path: str) -> Plain:
    """The value in a checked file.

    Args:
        kind: What the file should hold.
        content: The whole file.
        path: For the error.

    Raises:
        DamagedFile: torn, changed, or another kind.
    """
    if len(content) < _CRC.size:
        raise DamagedFile(f"{path}: {len(content)} bytes are too few for a {kind} file")
    body = content[_CRC.size :]
    (crc,) = _CRC.unpack_from(content)
    if crc32c(body) != crc:
        raise DamagedFile(f"{path}: the CRC of this {kind} file does not match its content")
    try:
        value = unpack(body)
    except ValueError as error:
        raise DamagedFile(f"{path}: not the content of a {kind} file: {error}") from error
    if not isinstance(value, list) or len(value) != 2 or value[0] != kind:
        raise DamagedFile(f"{path}: its kind is not {kind}")
    content_value: Plain = value[1]
    return content_value
