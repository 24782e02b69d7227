"""Parts of a document that a command measures: between two comments, and nowhere else."""

from __future__ import annotations

from pathlib import Path


class DocumentError(Exception):
    """A document has no place for what was measured; the text says what it needs."""


def marks(name: str) -> tuple[str, str]:
    """The comments before and after a part."""
    return f"<!-- measured: {name} -->", f"<!-- end: {name} -->"


def replace_part(document: str, name: str, text: str) -> str:
    """The document with another part of that name.

    Raises:
        DocumentError: it does not have both comments once, in their order.
    """
    first, last = marks(name)
    before, found_first, rest = document.partition(first)
    _, found_last, after = rest.partition(last)
    if not found_first or not found_last or first in after or last in after:
        raise DocumentError(f"the document needs {first} and then {last}, once each")
    return f"{before}{first}\n{text.strip()}\n{last}{after}"


def write_part(path: Path, name: str, text: str) -> None:
    """Replace a part of a file.

    Raises:
        DocumentError: the file cannot be read, or does not have both comments once.
    """
    try:
        document = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}") from error
    try:
        replaced = replace_part(document, name, text)
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error
    path.write_text(replaced, encoding="utf-8")
