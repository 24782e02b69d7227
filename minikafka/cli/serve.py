"""``minikafka serve``: run a broker in the foreground."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from ..metadata.settings import InvalidSettingError
from .failure import CommandFailed

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_DATA_DIR = "minikafka-data"
EXIT_USAGE = 2
EXIT_FAILED = 1


def _list_settings(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """Print the table of settings and end the command."""
    if not is_wanted or ctx.resilient_parsing:
        return
    from ..broker.config import BROKER_SETTINGS
    from ..metadata.settings import render_setting

    for name, setting in sorted(BROKER_SETTINGS.items()):
        click.echo(f"{name}={render_setting(setting.default)}")
        click.echo(f"    {setting.kind.name.lower()}. {setting.doc}")
    ctx.exit()


@click.command("serve")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Where the logs live; made if it is not there.  [default: ./{DEFAULT_DATA_DIR}]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"The address to listen on; port 0 picks a free one.  [default: {DEFAULT_LISTEN}]",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The address that clients are told.  [default: where it listens]",
)
@click.option("--node-id", type=int, help="This broker's number.  [default: 1]")
@click.option(
    "--quorum",
    metavar="ID@HOST:PORT,...",
    help="The nodes that decide for the cluster, with their addresses for other nodes; the same "
    "on every node.  [default: this broker is alone]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A TOML file of settings with Kafka's names.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, e.g. num.partitions=3; may be repeated.",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing: a temporary directory, no syncs.")
@click.option(
    "--list-settings",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_settings,
    help="Print every setting with its default, and exit.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What goes to stderr.",
)
def command(
    data_dir: Path | None,
    listen: str | None,
    advertise: str | None,
    node_id: int | None,
    quorum: str | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    ephemeral: bool,
    log_level: str,
) -> None:
    r"""Run a broker, alone or as a node of a cluster.

    When it can serve, it prints one line to stdout, `ready: HOST:PORT`; logs go to stderr. SIGTERM
    or Ctrl-C stops it within five seconds, and everything acknowledged is on disk.

    A node of a cluster is ready when the cluster has taken it in, for which a majority of the
    --quorum must run. Nodes that the --quorum does not name are brokers only; with
    --set process.roles=controller a node that it names serves no clients.

    \b
    Examples:
      minikafka serve
      minikafka serve --ephemeral --listen 127.0.0.1:0
      minikafka serve --set num.partitions=3 --set log.retention.ms=60000
      minikafka serve --node-id 1 --quorum 1@a:9093,2@b:9093,3@c:9093 --listen a:9092
    """
    from ..broker.addresses import parse_address
    from ..broker.config import load_config
    from ..broker.topology import topology_of

    logging.basicConfig(
        stream=sys.stderr,
        level=log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    given = {
        "node.id": None if node_id is None else str(node_id),
        "controller.quorum.voters": quorum,
        "listeners": None if listen is None else f"PLAINTEXT://{listen}",
        "advertised.listeners": None if advertise is None else f"PLAINTEXT://{advertise}",
    }
    flags = {name: text for name, text in given.items() if text is not None}
    try:
        text = None if config_file is None else config_file.read_text(encoding="utf-8")
        config = load_config(text, assignments, flags)
        for address in (*config.listeners, *config.advertised_listeners):
            parse_address(address)
        topology_of(config)
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    if ephemeral and data_dir is not None:
        raise click.UsageError("--ephemeral and --data-dir exclude each other")
    directory = data_dir or Path(*config.log_dirs[:1] or (DEFAULT_DATA_DIR,))
    with _leaving_well():
        if ephemeral:
            directory = Path(tempfile.mkdtemp(prefix="minikafka-"))
        try:
            from ..broker.run import BrokerOptions, StartError, run_broker

            options = BrokerOptions(config=config, data_dir=directory, is_ephemeral=ephemeral)
            try:
                run_broker(options, on_ready=lambda text: click.echo(f"ready: {text}"))
            except StartError as error:
                raise CommandFailed(str(error)) from None
        finally:
            if ephemeral:
                shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _leaving_well() -> Generator[None]:
    """Let signals to stop end the process with 0 before the broker listens to them, and after.

    They may come twice (from a terminal and from a supervisor); the second must not turn a clean
    stop into a failure while the interpreter ends, so afterwards they are ignored.
    """
    signals = (signal.SIGTERM, signal.SIGINT)
    previous = [signal.signal(number, _leave) for number in signals]
    actions: list[Any] = previous
    try:
        yield
        actions = [signal.SIG_IGN] * len(signals)
    finally:
        for number, action in zip(signals, actions, strict=True):
            signal.signal(number, action)


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise SystemExit(0)
