"""``minikafka quorum``: who votes on the metadata, and what an administrator can do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .failure import CommandFailed
from .output import iso_time, note, print_json, print_table
from .target import Target, client_command, connected

if TYPE_CHECKING:
    from minikafka_client import QuorumDescription, QuorumReplica

_LISTENER: Final = "CONTROLLER"
_KRAFT_VERSION: Final = "kraft.version"


@click.group("quorum")
def command() -> None:
    r"""See who votes on the cluster's metadata, and change it.

    Which controllers vote is configuration (--quorum) until 'minikafka quorum upgrade' has it
    recorded in the metadata log. From then on nodes are added and removed while the cluster runs.

    \b
    From one node to three:
      1. restart node 1 with --quorum 1@HOST1:19092, if it was started without
      2. minikafka quorum upgrade
      3. start nodes 2 and 3 with the same --quorum, and with
         --set minikafka.internal.listener=0.0.0.0:19092
      4. minikafka quorum add 2, then: minikafka quorum add 3
      5. name all three in --quorum from each node's next restart on
    """


@command.command("status")
@client_command
async def status(target: Target) -> None:
    r"""Show the voters and observers of the metadata quorum, and how far they are.

    LAG is how many entries of the metadata log a node lacks; DIRECTORY is the id of its data
    directory. A voter with a new directory, which is not admitted yet, is listed twice.

    \b
    Example:
      minikafka quorum status
    """
    async with connected(target) as admin:
        quorum = await admin.describe_metadata_quorum()
    rows = [
        *((_role(quorum, one), one) for one in quorum.voters),
        *(("observer", one) for one in quorum.observers),
    ]
    if target.as_json:
        print_json(
            {
                "leader": quorum.leader_id,
                "leader_epoch": quorum.leader_epoch,
                "high_watermark": quorum.high_watermark,
                "replicas": [
                    {
                        "node": one.node_id,
                        "role": role,
                        "log_end_offset": one.log_end_offset,
                        "lag": _lag(quorum, one),
                        "directory": one.directory_id.hex() or None,
                        "last_caught_up_ms": one.last_caught_up_timestamp_ms,
                    }
                    for role, one in rows
                ],
            }
        )
        return
    print_table(
        ["NODE", "ROLE", "LOG END", "LAG", "CAUGHT UP", "DIRECTORY"],
        [
            [
                one.node_id,
                role,
                one.log_end_offset if one.log_end_offset >= 0 else "?",
                "?" if (lag := _lag(quorum, one)) is None else lag,
                iso_time(one.last_caught_up_timestamp_ms),
                one.directory_id.hex() or "?",
            ]
            for role, one in rows
        ],
    )


def _role(quorum: QuorumDescription, voter: QuorumReplica) -> str:
    return "leader" if voter.node_id == quorum.leader_id else "voter"


def _lag(quorum: QuorumDescription, replica: QuorumReplica) -> int | None:
    if replica.log_end_offset < 0:
        return None
    ends = [one.log_end_offset for one in quorum.voters if one.node_id == quorum.leader_id]
    return max(0, max([quorum.high_watermark, *ends]) - replica.log_end_offset)


@command.command("upgrade")
@client_command
async def upgrade(target: Target) -> None:
    r"""Record the voters in the metadata log (kraft.version 1), so that they can be changed.

    From then on the log says who votes, and --quorum only says where to find the cluster. There is
    no way back, and older versions of minikafka cannot read the log. So first upgrade all nodes;
    all voters have to run.

    \b
    Example:
      minikafka quorum upgrade
    """
    async with connected(target) as admin:
        await admin.update_features({_KRAFT_VERSION: 1})
        quorum = await admin.describe_metadata_quorum()
    _report(target, quorum, "the metadata log records the voters")


@command.command("add")
@click.argument("node_id", metavar="ID", type=click.IntRange(min=0))
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Of the node's internal listener; by default the one that it uses.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long the node may take to catch up.",
)
@client_command
async def add(target: Target, node_id: int, address: str | None, timeout_s: float) -> None:
    r"""Let a node vote in the metadata quorum.

    The node runs already, and observes: 'minikafka quorum status' lists it. One node is added at a
    time; an even number of voters survives no more losses than the odd number below it.

    \b
    Examples:
      minikafka quorum add 2
      minikafka quorum add 3 --address kafka-3:19092
    """
    endpoints = {} if address is None else {_LISTENER: _parse_address(address)}
    async with connected(target) as admin:
        quorum = await admin.describe_metadata_quorum()
        directory_id = _directory(quorum.observers, node_id)
        if not directory_id:
            if any(one.node_id == node_id for one in quorum.voters):
                raise CommandFailed(f"node {node_id} is a voter already")
            known = ", ".join(str(one.node_id) for one in quorum.observers) or "none"
            raise CommandFailed(
                f"node {node_id} does not observe the metadata quorum (observers: {known}); start "
                "it with the --quorum of this cluster, and see its log"
            )
        await admin.add_raft_voter(
            node_id, directory_id, endpoints, timeout_ms=max(1, int(timeout_s * 1000))
        )
        quorum = await admin.describe_metadata_quorum()
    _report(target, quorum, f"node {node_id} votes")


@command.command("remove")
@click.argument("node_id", metavar="ID", type=click.IntRange(min=0))
@client_command
async def remove(target: Target, node_id: int) -> None:
    r"""Take the vote in the metadata quorum from a node, which may be dead.

    If it runs, it goes on as an observer. Of two voters, the one that is left must be alive.

    \b
    Example:
      minikafka quorum remove 1
    """
    async with connected(target) as admin:
        quorum = await admin.describe_metadata_quorum()
        if all(one.node_id != node_id for one in quorum.voters):
            known = ", ".join(str(one.node_id) for one in quorum.voters)
            raise CommandFailed(f"node {node_id} is not a voter; the voters are {known}")
        directory_id = _directory((*quorum.voters, *quorum.observers), node_id)
        if not directory_id:
            raise CommandFailed(
                f"the data directory of voter {node_id} is not known; start the node, or record "
                "the voters with 'minikafka quorum upgrade' while all of them run"
            )
        await admin.remove_raft_voter(node_id, directory_id)
        quorum = await admin.describe_metadata_quorum()
    _report(target, quorum, f"node {node_id} votes no longer")


def _directory(replicas: tuple[QuorumReplica, ...], node_id: int) -> bytes:
    found = [one.directory_id for one in replicas if one.node_id == node_id and one.directory_id]
    return found[0] if found else b""


def _parse_address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not (separator and host and port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise click.UsageError(f"--address takes HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def _report(target: Target, quorum: QuorumDescription, done: str) -> None:
    voters = [one.node_id for one in quorum.voters]
    if target.as_json:
        print_json({"voters": voters})
    else:
        note(f"{done}; the voters are {', '.join(map(str, voters))}")


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
