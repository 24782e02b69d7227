r"""``client.properties``: the files of properties that Kafka's own tools read.

    options = read_properties("client.properties")
    AdminClient.from_config(options)

The format is Java's: ``name=value`` (or ``name: value``), comments after ``#`` or ``!``, a
backslash at the end of a line that continues, and ``\n``, ``\t``, ``\uXXXX`` and the like.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Final

from minikafka_client.security_properties import SECRETS

__all__ = ["parse_properties", "read_properties"]

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SIZE_BYTES_MAX: Final = 1 << 20
_PAIR: Final = re.compile(r"((?:\\.|[^\\:=\s])+)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a file of properties.

    A file that holds a password or a private key must belong to one user alone.

    Raises:
        ValueError: it is not such a file, or others can read its secrets; the message names the
            file, and never a secret.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        content = file.read(_SIZE_BYTES_MAX + 1)
    if len(content) > _SIZE_BYTES_MAX:
        raise ValueError(f"{os.fspath(path)}: larger than {_SIZE_BYTES_MAX} bytes")
    try:
        properties = parse_properties(content.decode())
    except UnicodeDecodeError:
        raise ValueError(f"{os.fspath(path)}: not UTF-8, so not a file of properties") from None
    secrets = sorted(SECRETS & properties.keys())
    if secrets and os.name == "posix" and mode & _OTHERS:
        raise ValueError(
            f"{os.fspath(path)}: it holds {', '.join(secrets)}, and users other than its owner may "
            f"use the file (mode {stat.S_IMODE(mode):04o}); chmod 600 {os.fspath(path)}"
        )
    return properties


def parse_properties(text: str) -> dict[str, str]:
    """Properties in Java's format; the last of several with one name counts."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _PAIR.match(line)
        if match is None:  # nothing before the separator: Java's name is empty
            continue
        found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, continued ones joined."""
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for natural in lines:
        line = natural.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, "").lstrip(" \t\f")
        yield line


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "u" and len(code) == 5:
            return chr(int(code[1:], 16))
        return _CONTROLS.get(code, code)

    return _ESCAPE.sub(character, text)
