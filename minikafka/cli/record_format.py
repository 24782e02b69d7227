"""A consumed record as text: by a template with placeholders, or as a line of JSON."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from typing import Final

import click

from minikafka_client import ConsumerRecord

from .output import iso_time, json_bytes

RecordFormat = Callable[[ConsumerRecord], bytes]

NULL: Final = b"null"
_ESCAPE: Final = re.compile(r"\\(n|t|r|0|\\|x[0-9a-fA-F]{2})")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(
        key.encode() + b"=" + (NULL if value is None else value) for key, value in record.headers
    )


_PLACEHOLDERS: Final[dict[str, RecordFormat]] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: iso_time(record.timestamp_ms).encode(),
    "timestamp_ms": lambda record: b"%d" % record.timestamp_ms,
    "key": lambda record: NULL if record.key is None else record.key,
    "value": lambda record: NULL if record.value is None else record.value,
    "headers": _headers,
}

PLACEHOLDER_NAMES: Final = tuple(_PLACEHOLDERS)


def unescape(text: str) -> str:
    r"""Replace the escapes ``\n``, ``\t``, ``\r``, ``\0``, ``\\`` and ``\x1f``."""
    return _ESCAPE.sub(
        lambda found: _ESCAPED.get(found[1]) or chr(int(found[1][1:], 16)),
        text,
    )


def compile_format(template: str, delimiter: str) -> RecordFormat:
    """Compile a template like ``{key}={value}``, in which ``{{`` is a brace.

    Raises:
        click.UsageError: a placeholder is unknown, or a brace is unmatched.
    """
    pieces: list[bytes | RecordFormat] = []
    try:
        parsed = list(string.Formatter().parse(unescape(template)))
    except ValueError as error:
        raise click.UsageError(
            f"--format {template!r}: {error}; write a literal brace as {{{{ or }}}}"
        ) from None
    for literal, name, spec, conversion in parsed:
        if literal:
            pieces.append(literal.encode())
        if name is None:
            continue
        if name not in _PLACEHOLDERS or spec or conversion:
            raise click.UsageError(
                f"--format {template!r}: there is no placeholder {{{name}}}; "
                f"use {', '.join(PLACEHOLDER_NAMES)}"
            )
        pieces.append(_PLACEHOLDERS[name])
    pieces.append(unescape(delimiter).encode())

    def render(record: ConsumerRecord) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in pieces])

    return render


def json_line(record: ConsumerRecord) -> bytes:
    """A record as one line of JSON; see `json_bytes` for key, value and headers."""
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [{"key": key, "value": json_bytes(value)} for key, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
