"""Options of the form KEY=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

import click


def assignments(option: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Split ``KEY=VALUE`` texts.

    Raises:
        click.UsageError: there is no ``=`` in one, or nothing before it.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} takes KEY=VALUE, not {text!r}")
        pairs.append((key.strip(), value))
    return pairs
