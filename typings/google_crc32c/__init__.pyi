# Types of the part of google-crc32c that this project uses; the package has none.

from typing import Literal

# "c" is the extension; "python" is slower by a factor of hundreds.
implementation: Literal["c", "python"]

def value(chunk: bytes) -> int: ...
def extend(crc: int, chunk: bytes) -> int: ...
