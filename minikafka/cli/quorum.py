"""``minikafka quorum``: what an administrator can do about the metadata quorum."""

from __future__ import annotations

from pathlib import Path

import click

from .failure import CommandFailed


@click.group("quorum")
def command() -> None:
    """Help controllers that lost data directories."""


@command.command("admit")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="Data directory of the node, which is not running.",
)
@click.option(
    "--i-accept-data-loss",
    "is_accepted",
    is_flag=True,
    help="Required: say that you have read what this costs.",
)
def admit(data_dir: Path, is_accepted: bool) -> None:
    r"""Let a controller vote with a data directory that is new.

    A controller whose data directory was lost and replaced does not vote until the others, if they
    are a majority without it, have admitted it. That happens by itself: start the node with an
    empty directory and wait. This command is for the case in which a majority of the directories
    is lost for good, so that no leader can be elected again.

    \b
    What it costs: whatever was committed on the lost directories only is gone (topics that were
    created, leaders and ISRs that were changed), and nobody can say what that was. If a missing
    directory turns up later, its node refuses to take part, and says why. So first try to bring
    back the directories that exist.

    \b
    How to use it, for a quorum of nodes 1, 2 and 3 of which 2 and 3 have lost their directories:
      1. stop all three
      2. start node 2 once with an empty directory, so that it gets its files, and stop it
      3. run the command below
      4. start all three: 1 is elected by 1 and 2, and admits 3

    \b
    Examples:
      minikafka quorum admit --data-dir /data/node-2 --i-accept-data-loss
    """
    from ..consensus.durable import admit_directory
    from ..storage.disk import RealDisk
    from ..storage.errors import LogError
    from ..storage.log_directory import LOCK_FILE_NAME

    if not is_accepted:
        raise click.UsageError(
            "this may lose committed metadata; see 'minikafka quorum admit --help', and confirm "
            "with --i-accept-data-loss"
        )
    disk = RealDisk()
    try:
        lock = disk.lock(str(data_dir / LOCK_FILE_NAME))
        try:
            was_new = admit_directory(disk, str(data_dir))
        finally:
            lock.release()
    except LogError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"cannot change {data_dir}: {error.strerror or error}") from None
    if was_new:
        click.echo(f"{data_dir}: admitted; its node votes from its next start on")
    else:
        click.echo(f"{data_dir}: was admitted already; nothing changed")
