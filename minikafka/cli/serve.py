"""``minikafka serve``: run a broker in the foreground."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from ..metadata.settings import InvalidSettingError
from .failure import CommandFailed
from .passwords import PASSWORD_VARIABLE, password_from_environment, read_password_file
from .signals import exit_cleanly_on_signals

if TYPE_CHECKING:
    from ..metadata.setting_table import BrokerConfig

DEFAULT_LISTEN: Final = "127.0.0.1:9092"
DEFAULT_DATA_DIR: Final = "minikafka-data"
_STDIN_BYTES: Final = 4096

_Users = list[tuple[str, str]]
"""Names and passwords."""


def _list_settings(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or ctx.resilient_parsing:
        return
    from ..metadata.setting_table import BROKER_SETTINGS
    from ..metadata.settings import render_setting

    for name, setting in sorted(BROKER_SETTINGS.items()):
        click.echo(f"{name}={render_setting(setting.default)}")
        click.echo(f"    {setting.kind.name.lower()}. {setting.doc}")
    ctx.exit()


@click.command("serve")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Directory of the logs; created if missing.  [default: ./{DEFAULT_DATA_DIR}]",
)
@click.option(
    "--listen",
    metavar="[NAME://]HOST:PORT,...",
    help="The addresses to listen on, as in the setting listeners; port 0 picks a free one.  "
    f"[default: {DEFAULT_LISTEN}]",
)
@click.option(
    "--advertise",
    metavar="[NAME://]HOST:PORT,...",
    help="The addresses that clients should connect to, as in advertised.listeners.  "
    "[default: those it listens on]",
)
@click.option("--node-id", type=int, help="Id of this node, unique in the cluster.  [default: 1]")
@click.option(
    "--quorum",
    metavar="ID@HOST:PORT,...",
    help="The controllers of the cluster, at their addresses for other nodes; the same on every "
    "node.  [default: this broker on its own]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A TOML file of settings, under Kafka's names.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting, e.g. num.partitions=3; may be repeated.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME",
    help="A user that can log in with SCRAM, created if it does not exist; its password is in a "
    f"--password-file or, for one user, in {PASSWORD_VARIABLE}. May be repeated.",
)
@click.option(
    "--password-file",
    "password_files",
    multiple=True,
    metavar="FILE",
    help="The password of the --user at the same place: the first line of a file that only you "
    "can read; - is stdin. May be repeated.",
)
@click.option(
    "--ephemeral", is_flag=True, help="Keep nothing: use a temporary directory, never fsync."
)
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
    help="Least severe level that is logged to stderr.",
)
@click.option(
    "--until-stdin-closes",
    is_flag=True,
    envvar="MINIKAFKA_UNTIL_STDIN_CLOSES",
    help="Stop when stdin is closed, so as not to outlive the program that started the broker; "
    "also read from MINIKAFKA_UNTIL_STDIN_CLOSES.",
)
def command(
    data_dir: Path | None,
    listen: str | None,
    advertise: str | None,
    node_id: int | None,
    quorum: str | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    users: tuple[str, ...],
    password_files: tuple[str, ...],
    ephemeral: bool,
    log_level: str,
    until_stdin_closes: bool,
) -> None:
    r"""Run a broker, on its own or as a node of a cluster.

    Once it is ready to serve clients, it prints one line to stdout, `ready: HOST:PORT`; logs go to
    stderr. SIGTERM or Ctrl-C stops it within five seconds, with everything acknowledged on disk.

    A node of a cluster is ready once it has registered with the controllers, which takes a majority
    of the --quorum. Nodes that --quorum does not name are brokers only; with --set
    process.roles=controller, a node that it names is a controller only and serves no clients.

    \b
    Examples:
      minikafka serve
      minikafka serve --ephemeral --listen 127.0.0.1:0
      minikafka serve --set num.partitions=3 --set log.retention.ms=60000
      minikafka serve --node-id 1 --quorum 1@a:9093,2@b:9093,3@c:9093 --listen a:9092
    """
    from ..broker.settings.config import load_config
    from ..broker.settings.listeners import listeners_of
    from ..broker.settings.topology import topology_of
    from .private_settings import check_private_settings

    logging.basicConfig(
        stream=sys.stderr,
        level=log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    given = {
        "node.id": None if node_id is None else str(node_id),
        "controller.quorum.voters": quorum,
        "listeners": listen,
        "advertised.listeners": advertise,
    }
    flags = {name: text for name, text in given.items() if text is not None}
    try:
        text = None if config_file is None else config_file.read_text(encoding="utf-8")
        config = load_config(text, assignments, flags)
        if topology_of(config).is_broker:
            listeners_of(config)
        check_private_settings(text, assignments, config_file)
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    if ephemeral and data_dir is not None:
        raise click.UsageError("--ephemeral and --data-dir exclude each other")
    first_users = _first_users(users, password_files)
    directory = data_dir or Path(*config.log_dirs[:1] or (DEFAULT_DATA_DIR,))
    with exit_cleanly_on_signals():
        if until_stdin_closes:
            threading.Thread(target=_stop_when_stdin_closes, daemon=True).start()
        if ephemeral:
            broker = _run_ephemeral(config, first_users)
        else:
            broker = _run(config, directory, first_users, is_ephemeral=False)
        _end_process(broker)


def _run_ephemeral(config: BrokerConfig, first_users: _Users) -> object:
    import shutil
    import tempfile

    directory = Path(tempfile.mkdtemp(prefix="minikafka-"))
    try:
        return _run(config, directory, first_users, is_ephemeral=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _end_process(broker: object) -> NoReturn:
    """End without the interpreter's teardown, and without threads that wait for a slow disk.

    The broker is not even freed: with 20,000 partitions that takes seconds.
    """
    del broker  # the caller has it
    # `os._exit` skips them, and there is no public way to run them.
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    logging.shutdown()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(0)


def _first_users(names: Sequence[str], password_files: Sequence[str]) -> _Users:
    """Names and passwords of the users to create."""
    passwords = [read_password_file(path) for path in password_files]
    from_environment = password_from_environment()
    if len(names) == 1 and not passwords and from_environment is not None:
        passwords = [from_environment]
    if len(names) != len(passwords):
        raise click.UsageError(
            f"{len(names)} --user and {len(passwords)} --password-file: each user needs a password"
        )
    return list(zip(names, passwords, strict=True))


def _run(
    config: BrokerConfig, directory: Path, first_users: _Users, *, is_ephemeral: bool
) -> object:
    # Hardly anything becomes garbage before the broker is ready, when it collects again.
    gc.disable()
    from ..broker.control.first_users import FirstUser
    from ..broker.run import BrokerOptions, StartError, run_broker
    from ..broker.system.free_memory import give_back_what_is_free

    give_back_what_is_free()
    options = BrokerOptions(
        config=config,
        data_dir=directory,
        is_ephemeral=is_ephemeral,
        first_users=tuple(FirstUser(*one) for one in first_users),
    )
    companion = click.get_current_context().obj  # of a test, see minikafka.testing.inside
    try:
        return run_broker(options, lambda text: click.echo(f"ready: {text}"), companion)
    except StartError as error:
        raise CommandFailed(str(error)) from None
    finally:
        gc.enable()


def _stop_when_stdin_closes() -> None:
    while os.read(0, _STDIN_BYTES):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
