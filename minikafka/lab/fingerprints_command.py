"""``minikafka lab fingerprints``: that a seed gives the same run everywhere."""

from __future__ import annotations

import click

from ..cli.output import print_json, reader_may_leave


@click.command("fingerprints")
@click.argument("seeds", type=click.IntRange(1), default=200)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
def command(seeds: int, as_json: bool) -> None:
    r"""Print a fingerprint of everything that happens in each of the first SEEDS seeds.

    Every seed draws its cell. The page of `lab web` gives the same ones: there,
    `await labFingerprints(200)` in the console.

    \b
    For example:
      minikafka lab fingerprints 20
    """
    from .web.browser import fingerprints_of

    found = fingerprints_of(seeds)
    with reader_may_leave():
        if as_json:
            print_json(found)
        else:
            for seed, one in enumerate(found):
                click.echo(f"{seed} {one}")
