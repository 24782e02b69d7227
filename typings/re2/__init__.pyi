# What we use of google-re2, which comes without types.

from typing import Protocol

class error(Exception): ...  # noqa: N801 - the library's name

class Options:
    log_errors: bool
    max_mem: int

class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...

def compile(pattern: str, options: Options | None = None) -> _Pattern: ...
