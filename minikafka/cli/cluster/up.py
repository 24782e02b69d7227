"""``minikafka cluster up``: run a whole cluster in the foreground."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from ...metadata.settings import INT_MAX
from ..failure import CommandFailed
from ..signals import exit_cleanly_on_signals
from .files import ClusterFiles, data_dir_option
from .layout import (
    HOST,
    PORT_MAX,
    REPLICAS_MAX,
    NodeOptions,
    lay_out,
    serve_command,
)
from .supervisor import Supervisor

_PORTS_TO_CHOOSE_FROM: Final = range(10_000, 32_000)


@click.command("up")
@click.option(
    "--brokers",
    type=click.IntRange(min=1, max=100),
    help="Number of brokers.  [default: as many as last time, or 3]",
)
@data_dir_option
@click.option(
    "--port",
    type=click.IntRange(min=0, max=PORT_MAX),
    help="Port of the first broker, with the others above it; 0 picks free ones.  "
    "[default: the same as last time, or 9092]",
)
@click.option(
    "--first-id",
    type=click.IntRange(min=0, max=INT_MAX - 100),
    help="Id of the first broker, with the others above it.  "
    "[default: the same as last time, or 1]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition.  [default: one per broker, at most 3]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A TOML file of settings for all brokers.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting for all brokers; may be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least severe level in the brokers' logs.",
)
def command(
    brokers: int | None,
    data_dir: Path,
    port: int | None,
    first_id: int | None,
    replication_factor: int | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    log_level: str,
) -> None:
    r"""Run a cluster on this machine, with each broker as a process of its own.

    Once all brokers are ready, it prints one line to stdout, `ready: HOST:PORT,HOST:PORT,...`.
    Ctrl-C or SIGTERM stops them all. The directory keeps everything for the next time, including
    the ports; a larger --brokers adds brokers to the cluster.

    Replication factor N sets default.replication.factor=N, min.insync.replicas=N-1 (at least 1) and
    offsets.topic.replication.factor=N, unless --config or --set says otherwise. So with three
    replicas, acks=all waits for two, and one broker may be missing.

    A broker that dies stays dead until `minikafka cluster start NODE`, so that you can watch what
    the others do.

    \b
    Examples:
      minikafka cluster up
      minikafka cluster up --brokers 5 --data-dir five --port 0
      minikafka cluster up --set replica.lag.time.max.ms=5000
    """
    files = ClusterFiles(data_dir)
    with exit_cleanly_on_signals(), files.supervised() as requests:
        cluster = lay_out(files.read(), brokers, port, _free_ports(), first_id)
        copies = min(REPLICAS_MAX, len(cluster.nodes))
        if replication_factor is not None:
            copies = replication_factor
        if copies > len(cluster.nodes):
            raise click.UsageError(
                f"--replication-factor {copies} needs as many brokers, but there are only "
                f"{len(cluster.nodes)}"
            )
        options = NodeOptions(copies, config_file, assignments, log_level)
        supervisor = Supervisor(
            files, cluster, lambda node: serve_command(cluster, node, files, options), requests
        )
        supervisor.run(on_ready=lambda addresses: click.echo(f"ready: {addresses}"))


def _free_ports() -> Callable[[], int]:
    """A function that returns another free port each time.

    It stays below the ephemeral ports: an outgoing connection could take the port of a dead node,
    or even connect to itself there.
    """
    from random import sample

    candidates = sample(_PORTS_TO_CHOOSE_FROM, len(_PORTS_TO_CHOOSE_FROM))

    def free_port() -> int:
        while candidates:
            port = candidates.pop()
            with socket.socket() as probe, suppress(OSError):
                probe.bind((HOST, port))
                return port
        raise CommandFailed("no port is free; choose one with --port")

    return free_port
