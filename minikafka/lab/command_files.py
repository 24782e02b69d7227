"""What the lab's commands share: claims by name, and reports written to files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..cli.failure import CommandFailed, unknown_name
from .claims import CLAIMS, Claim, claim_of
from .results import Document


def find_claim(name: str) -> Claim:
    """The claim of an id; the error for an unknown one suggests the nearest."""
    try:
        return claim_of(name)
    except ValueError:
        known = [claim.id for claim in CLAIMS]
        raise unknown_name("claim", name, known, "`minikafka lab show` lists them") from None


def check_writable(*paths: Path | None) -> None:
    """Fail before minutes of work, not after them."""
    for path in paths:
        if path is not None and str(path) != "-" and not path.absolute().parent.is_dir():
            raise CommandFailed(f"cannot write {path}: {path.absolute().parent} is no directory")


def write_report(document: Document, json_path: Path | None, html_path: Path | None) -> None:
    """Write the document of a lab as JSON (``-`` for stdout), as a page, or both."""
    if json_path is not None:
        text = json.dumps(document, ensure_ascii=False)
        if str(json_path) == "-":
            click.echo(text)
        else:
            write_file(json_path, text)
    if html_path is not None:
        from .page import render

        write_file(html_path, render(document))


def write_file(path: Path, text: str) -> None:
    """Write a file; the error names it."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror or error}") from None
