"""``minikafka cluster up``: run a whole cluster in the foreground."""

from __future__ import annotations

import random
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click

from .cluster_files import DATA_DIR_VARIABLE, DEFAULT_DATA_DIR, ClusterFiles
from .cluster_layout import (
    HOST,
    PORT_MAX,
    REPLICAS_MAX,
    NodeOptions,
    lay_out,
    serve_command,
)
from .cluster_supervisor import Supervisor
from .failure import CommandFailed

_PORTS_TO_CHOOSE_FROM: Final = range(10_000, 32_000)


@click.command("up")
@click.option(
    "--brokers",
    type=click.IntRange(min=1, max=100),
    help="How many.  [default: as many as there were, or 3]",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_DATA_DIR,
    envvar=DATA_DIR_VARIABLE,
    show_default=True,
    help=f"Where the cluster lives; also from {DATA_DIR_VARIABLE}.",
)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=PORT_MAX),
    help="Port of the first broker, the others' follow; 0 picks free ones.  "
    "[default: as it was, or 9092]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Copies of each partition.  [default: one per broker, at most 3]",
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
    help="One setting for all brokers; may be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What goes into the brokers' logs.",
)
def command(
    brokers: int | None,
    data_dir: Path,
    port: int | None,
    replication_factor: int | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    log_level: str,
) -> None:
    r"""Run a cluster on this machine, each broker a process of its own.

    When all brokers serve, it prints one line to stdout, `ready: HOST:PORT,HOST:PORT,...`. Ctrl-C
    or SIGTERM stops them all. The directory keeps everything, the ports too, for the next time; a
    larger --brokers adds brokers to it.

    Replication factor N sets default.replication.factor=N, min.insync.replicas=N-1 (at least 1) and
    offsets.topic.replication.factor=N, unless --config or --set says otherwise. So with three
    copies acks=all waits for two, and one broker may be missing.

    A broker that dies stays dead until `minikafka cluster start NODE`: look what the others do.

    \b
    Examples:
      minikafka cluster up
      minikafka cluster up --brokers 5 --data-dir five --port 0
      minikafka cluster up --set replica.lag.time.max.ms=5000
    """
    files = ClusterFiles(data_dir)
    with _signals_end_it(), files.supervised() as requests:
        cluster = lay_out(files.read(), brokers, port, _free_ports())
        copies = min(REPLICAS_MAX, len(cluster.nodes))
        if replication_factor is not None:
            copies = replication_factor
        if copies > len(cluster.nodes):
            raise click.UsageError(
                f"--replication-factor {copies} needs as many brokers, and there are "
                f"{len(cluster.nodes)}"
            )
        options = NodeOptions(copies, config_file, assignments, log_level)
        supervisor = Supervisor(
            files, cluster, lambda node: serve_command(cluster, node, files, options), requests
        )
        supervisor.run(on_ready=lambda addresses: click.echo(f"ready: {addresses}"))


def _free_ports() -> Callable[[], int]:
    """A function that names another free port each time.

    Not those the system gives to outgoing connections: one of these could take the port of a node
    that is dead, or even connect to itself there.
    """
    candidates = random.sample(_PORTS_TO_CHOOSE_FROM, len(_PORTS_TO_CHOOSE_FROM))

    def free_port() -> int:
        while candidates:
            port = candidates.pop()
            with socket.socket() as probe, suppress(OSError):
                probe.bind((HOST, port))
                return port
        raise CommandFailed("no port is free; give one with --port")

    return free_port


@contextmanager
def _signals_end_it() -> Generator[None]:
    """A signal before the supervisor listens to them ends the command well, too.

    A second one must not turn a clean end into a failure while the interpreter ends.
    """

    def leave(number: int, frame: object) -> None:
        del number, frame
        raise SystemExit(0)

    signals = (signal.SIGTERM, signal.SIGINT)
    previous: list[Any] = [signal.signal(number, leave) for number in signals]
    after = previous
    try:
        yield
        after = [signal.SIG_IGN] * len(signals)
    finally:
        for number, handler in zip(signals, after, strict=True):
            signal.signal(number, handler)
