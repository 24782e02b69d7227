"""``minikafka lab show``: the claims, what they say, and how earlier results stamp them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..cli.failure import CommandFailed
from ..cli.output import print_json, print_table, reader_may_leave
from .claims import CLAIMS, Bound, Claim
from .command_files import find_claim
from .results import FORMAT

_EXPECTED = {True: "true", False: "false", None: "measured"}


@click.command("show")
@click.argument("name", metavar="[CLAIM]", required=False)
@click.option(
    "--results",
    "path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What `lab run --json` wrote: show its stamps.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
def command(name: str | None, path: Path | None, as_json: bool) -> None:
    r"""List the claims, or explain one.

    With --results the stamps of an earlier run are shown beside them.

    \b
    For example:
      minikafka lab show
      minikafka lab show acks1-exactly-once --results lab.json
    """
    claims = list(CLAIMS) if name is None else [find_claim(name)]
    stamps = {} if path is None else _stamps(path)
    with reader_may_leave():
        if as_json:
            print_json([_document(one) | stamps.get(one.id, {}) for one in claims])
        elif name is None:
            columns = ["claim", "statement", "expected", *(["stamp"] if path else [])]
            print_table(
                columns,
                [
                    [
                        one.id,
                        one.statement,
                        _EXPECTED[one.expected],
                        *([stamps.get(one.id, {}).get("verdict", "open")] if path else []),
                    ]
                    for one in claims
                ],
            )
        else:
            _explain(claims[0], stamps.get(claims[0].id))


def _stamps(path: Path) -> dict[str, dict[str, Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise CommandFailed(f"{path} has format {document['format']}, this reads {FORMAT}")
        return {
            claim["id"]: {"verdict": claim["verdict"], "engines": claim["engines"]}
            for claim in document["claims"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"{path} is not what `lab run --json` writes: {error!r}") from None


def _document(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "statement": claim.statement,
        "because": claim.because,
        "expected": claim.expected,
        "says": [
            {"what": one.what, "bound": one.bound.value, "cells": len(list(one.where.cells()))}
            for one in claim.says
        ],
    }


def _explain(claim: Claim, stamp: dict[str, Any] | None) -> None:
    click.echo(claim.statement)
    click.echo(f"  expected: {_EXPECTED[claim.expected]}. {claim.because}")
    for one in claim.says:
        cells = list(one.where.cells())
        often = "never" if one.bound is Bound.NEVER else "can be"
        click.echo(f"  {often} {one.what.replace('_', ' ')}, in {len(cells)} cells such as")
        for cell in cells[:3]:
            click.echo(f"    {cell}")
    if claim.costs is not None:
        low, high = claim.costs.low, claim.costs.high
        click.echo(f"  {claim.costs.measure} is between {low:g} and {high:g}")
    for engine, found in (stamp or {}).get("engines", {}).items():
        click.echo(f"  {engine}: {found['verdict']}, {found['why']}")
        if found.get("example"):
            click.echo(f"    minikafka lab replay {found['example']['seed']}")
