"""What the commands that talk to a cluster share: options, connection, errors.

Such a command is an async function that takes a `Target` and its own options; `client_command`
makes it one that click can call. trio and the client are imported only when it runs.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import click
from click.core import ParameterSource

from .failure import CommandFailed, one_line, unknown_name
from .output import note, reader_may_leave

if TYPE_CHECKING:
    from minikafka_client import AdminClient
    from minikafka_client.options import ConnectionOptions

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
BOOTSTRAP_VARIABLE: Final = "MINIKAFKA_BOOTSTRAP"
CONFIG_VARIABLE: Final = "MINIKAFKA_CONFIG"
CLIENT_ID: Final = "minikafka-cli"
_CLIENT_LOGGER: Final = "minikafka_client"
_WARNINGS_REMEMBERED_MAX: Final = 100


def _no_options() -> ConnectionOptions:
    return {}


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster a command works on, and whether it answers in JSON.

    Attributes:
        options: what ``--config`` and ``-X`` say about connections.
    """

    bootstrap: str
    as_json: bool
    connect_timeout_s: float
    options: ConnectionOptions = field(default_factory=_no_options, repr=False)

    @property
    def connection(self) -> ConnectionOptions:
        return {"client_id": CLIENT_ID, **self.options}

    @property
    def first_connection(self) -> ConnectionOptions:
        """Options for finding out whether there is a broker at all."""
        patience_ms = max(1, int(self.connect_timeout_s * 1000))
        return {
            **self.connection,
            "socket_connection_setup_timeout_ms": patience_ms,
            "default_api_timeout_ms": patience_ms,
        }


config_option: Final = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    envvar=CONFIG_VARIABLE,
    metavar="FILE",
    help="A client.properties file with Kafka's names, for TLS and SASL for instance; also "
    f"read from {CONFIG_VARIABLE}.",
)
properties_option: Final = click.option(
    "-X",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property that is not in the file; no secrets, others can see them here.",
)


def client_command(
    function: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """`settings_command` for commands whose ``--config`` is nothing but a file."""
    return config_option(settings_command(function))


def settings_command(
    function: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Give an async command the options that name its cluster, and a `Target` as first argument.

    Apply it below click's decorators. A `KafkaError` becomes one line and exit code 1; a reader
    that closes our stdout is not an error.

    Of a command with a ``--config KEY=VALUE`` of its own (called ``configs``), a value without an
    equals sign is the file of properties.
    """

    @click.option(
        "--bootstrap",
        default=DEFAULT_BOOTSTRAP,
        envvar=BOOTSTRAP_VARIABLE,
        show_default=True,
        metavar="HOST:PORT[,...]",
        help=f"Brokers to contact first; also read from {BOOTSTRAP_VARIABLE}.",
    )
    @properties_option
    @click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
    @click.option(
        "--connect-timeout",
        "connect_timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=5,
        show_default=True,
        metavar="SECONDS",
        help="Give up if no broker has answered by then.",
    )
    @functools.wraps(function)
    def run(
        bootstrap: str,
        properties: tuple[str, ...],
        as_json: bool,
        connect_timeout_s: float,
        config_file: Path | None = None,
        **arguments: Any,
    ) -> None:
        from minikafka_client.core.cluster import parse_bootstrap

        if "configs" in arguments:
            config_file, arguments["configs"] = _split_configs(arguments["configs"])
        options: ConnectionOptions = {}
        if config_file is not None or properties:
            bootstrap, options = _configured(bootstrap, config_file, properties)
        try:
            parse_bootstrap(bootstrap)
        except ValueError as error:
            raise click.UsageError(f"--bootstrap: {error}") from None
        target = Target(bootstrap, as_json, connect_timeout_s, options)
        with reader_may_leave():
            _run(functools.partial(function, target, **arguments))

    return run


def _split_configs(configs: Iterable[str]) -> tuple[Path | None, tuple[str, ...]]:
    """Tell the file of properties from settings."""
    settings = tuple(text for text in configs if "=" in text)
    files = [text for text in configs if "=" not in text]
    if len(files) > 1:
        raise click.UsageError(f"--config takes KEY=VALUE, or one file, not {files[1]!r}, too")
    if files and not os.path.exists(files[0]):
        raise click.UsageError(f"--config takes KEY=VALUE, not {files[0]!r}; there is no such file")
    name = files[0] if files else os.environ.get(CONFIG_VARIABLE)
    return None if name is None else Path(name), settings


def _configured(
    bootstrap: str, config_file: Path | None, assigned: Iterable[str]
) -> tuple[str, ConnectionOptions]:
    """Read ``--config`` and ``-X``, as options of our clients.

    Raises:
        CommandFailed: the file cannot be read, or others can read its secrets.
        click.UsageError: a property is unknown or malformed, or a secret was given with ``-X``.
    """
    from minikafka_client.properties import admin_options

    found = configured_properties(bootstrap, config_file, assigned)
    try:
        return admin_options(found, click.get_current_context().command_path)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None


def configured_properties(
    bootstrap: str, config_file: Path | None, assigned: Iterable[str]
) -> dict[str, str]:
    """Read ``--config`` and ``-X``; ``--bootstrap`` wins if it was given.

    Raises:
        CommandFailed: the file cannot be read, or others can read its secrets.
        click.UsageError: an assignment is malformed, or a secret was given with ``-X``.
    """
    from minikafka_client.property_files import read_properties
    from minikafka_client.security_properties import SECRETS

    found: dict[str, str] = {}
    if config_file is not None:
        try:
            found = read_properties(config_file)
        except (OSError, ValueError) as error:
            raise CommandFailed(f"--config: {error}") from None
    for name, value in assignments("-X", assigned):
        if name in SECRETS:
            raise click.UsageError(
                f"-X {name}: others could see it in the list of processes; put it into a file that "
                "only you can read, and name it with --config"
            )
        found[name] = value
    context = click.get_current_context()
    is_given = context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    if is_given or not found.get("bootstrap.servers"):
        found["bootstrap.servers"] = bootstrap
    return found


def _run(command: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import trio

    from minikafka_client import KafkaError

    hide_warnings(_CLIENT_LOGGER)
    try:
        trio.run(command)
    except BaseExceptionGroup as group:
        raise _most_telling(group) from None
    except KafkaError as error:
        raise CommandFailed(str(error)) from None


def _most_telling(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of a group that the user should read."""
    from minikafka_client import KafkaError

    leaves = list(_leaves(group))
    for kind in (KeyboardInterrupt, BrokenPipeError, click.ClickException):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    if all(isinstance(leaf, KafkaError) for leaf in leaves):
        return CommandFailed(str(leaves[0]))
    return group


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterable[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", error))
        else:
            yield error


@asynccontextmanager
async def connected(
    target: Target, **options: Unpack[ConnectionOptions]
) -> AsyncGenerator[AdminClient]:
    """Open an admin client once a broker has answered.

    Raises:
        CommandFailed: no broker answers within the connect timeout.
    """
    from minikafka_client import AdminClient, KafkaError

    try:
        async with AdminClient(target.bootstrap, **target.first_connection) as probe:
            await probe.describe_cluster()
    except KafkaError as error:
        raise CommandFailed(
            f"no Kafka broker answers at {target.bootstrap} ({error}); is one running? "
            f"Start one with `minikafka serve`, or name it with --bootstrap HOST:PORT"
        ) from None
    show_repeated_warnings(_CLIENT_LOGGER)
    connection: ConnectionOptions = {**target.connection, **options}
    async with AdminClient(target.bootstrap, **connection) as admin:
        yield admin


async def require_topics(admin: AdminClient, names: Iterable[str]) -> None:
    """Check that topics exist.

    Raises:
        CommandFailed: one does not; the message suggests the nearest names.
    """
    known = await admin.list_topics(include_internal=True)
    for name in names:
        if name not in known:
            raise unknown_name(
                "topic", name, known, f"create it with `minikafka topic create {name}`"
            )


def no_partition(topic: str, partition: int, count: int) -> CommandFailed:
    """The error for a partition that a topic of `count` partitions does not have."""
    return CommandFailed(
        f"topic {topic!r} has no partition {partition}; it has {count}, numbered from 0"
    )


def assignments(option: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Split the ``KEY=VALUE`` texts of an option.

    Raises:
        click.UsageError: a text has no ``=``, or no key.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} takes KEY=VALUE, not {text!r}")
        pairs.append((key.strip(), value))
    return pairs


# --- the client's warnings ---


class _RepeatedOnce(logging.Handler):
    """Prints a warning to stderr when it is logged for the second time, and never again.

    A problem that occurs once has either gone away by then or becomes the command's error; a client
    that keeps retrying is worth a line.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._times: dict[tuple[str, int], int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        source = (record.pathname, record.lineno)  # the same warning, whatever its arguments
        if source in self._times or len(self._times) < _WARNINGS_REMEMBERED_MAX:
            self._times[source] = self._times.get(source, 0) + 1
            if self._times[source] == 2:
                note(one_line(record.getMessage()))


def hide_warnings(logger_name: str) -> None:
    logger = logging.getLogger(logger_name)
    logger.handlers[:] = [logging.NullHandler()]
    logger.propagate = False


def show_repeated_warnings(logger_name: str) -> None:
    """Show warnings of a library that come more than once, each one once."""
    logging.getLogger(logger_name).handlers[:] = [_RepeatedOnce()]
