# Types of the part of msgpack that this project uses; the package has none.

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

# What was packed may be anything, so whoever unpacks checks what came.
_Unpacked: TypeAlias = Any

class ExtType:
    code: int
    data: bytes
    def __init__(self, code: int, data: bytes) -> None: ...

class UnpackException(Exception): ...
class BufferFull(UnpackException): ...
class OutOfData(UnpackException): ...
class FormatError(ValueError, UnpackException): ...
class StackError(ValueError, UnpackException): ...

class ExtraData(ValueError):
    unpacked: _Unpacked
    extra: bytes

def packb(
    o: object,
    *,
    default: Callable[[Any], object] | None = ...,
    use_single_float: bool = ...,
    use_bin_type: bool = ...,
    strict_types: bool = ...,
    datetime: bool = ...,
) -> bytes: ...
def unpackb(
    packed: bytes | bytearray | memoryview,
    *,
    use_list: bool = ...,
    raw: bool = ...,
    strict_map_key: bool = ...,
    timestamp: int = ...,
    object_hook: Callable[[dict[Any, Any]], object] | None = ...,
    ext_hook: Callable[[int, bytes], object] = ...,
    max_str_len: int = ...,
    max_bin_len: int = ...,
    max_array_len: int = ...,
    max_map_len: int = ...,
    max_ext_len: int = ...,
) -> _Unpacked: ...

class Packer:
    def __init__(
        self,
        *,
        default: Callable[[Any], object] | None = ...,
        use_single_float: bool = ...,
        autoreset: bool = ...,
        use_bin_type: bool = ...,
        strict_types: bool = ...,
    ) -> None: ...
    def pack(self, obj: object) -> bytes: ...
    def bytes(self) -> bytes: ...
    def reset(self) -> None: ...

class Unpacker:
    def __init__(
        self,
        file_like: object = ...,
        *,
        use_list: bool = ...,
        raw: bool = ...,
        strict_map_key: bool = ...,
        max_buffer_size: int = ...,
    ) -> None: ...
    def feed(self, data: bytes | bytearray | memoryview) -> None: ...
    def unpack(self) -> _Unpacked: ...
    def tell(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> _Unpacked: ...
