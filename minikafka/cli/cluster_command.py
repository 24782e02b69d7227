"""What all commands share that talk to a cluster: options, connection, signals, errors.

A command is an async function that gets a `Target` and its own options. `cluster_command` turns it
into one that click can call; trio and the client are imported when it runs.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import click

from .failure import CommandFailed, Interrupted, Terminated, cannot_write, unknown_name
from .lasting_trouble import hide_warnings, show_lasting_trouble

if TYPE_CHECKING:
    from minikafka_client import AdminClient
    from minikafka_client.options import ConnectionOptions

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
BOOTSTRAP_VARIABLE: Final = "MINIKAFKA_BOOTSTRAP"
_CLIENT_LOGGER: Final = "minikafka_client"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a command works, and how it answers.

    Attributes:
        bootstrap: ``HOST:PORT``, several with commas between.
        as_json: output for programs.
        connect_timeout_s: how long to look for a broker.
    """

    bootstrap: str
    as_json: bool
    connect_timeout_s: float

    @property
    def connection(self) -> ConnectionOptions:
        """How our client is to connect."""
        return {"client_id": "minikafka-cli"}

    @property
    def first_connection(self) -> ConnectionOptions:
        """How it is to find out whether there is a broker at all."""
        patience_ms = max(1, int(self.connect_timeout_s * 1000))
        return {
            **self.connection,
            "connect_timeout_ms": patience_ms,
            "api_timeout_ms": patience_ms,
        }


@dataclass(slots=True)
class Stop:
    """Which signal came, if any: SIGINT (Ctrl-C), SIGTERM, or 0."""

    signal_number: int = 0

    def error(self, message: str) -> Interrupted:
        """The error to raise once the command has cleaned up; `message` says what was done."""
        kind = Terminated if self.signal_number == signal.SIGTERM else Interrupted
        return kind(message)


def cluster_command(
    function: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Give an async command its cluster: options in, `Target` as the first argument.

    Apply it under click's decorators. `KafkaError` becomes one line and exit code 1; a reader that
    closes our stdout is not an error.
    """

    @click.option(
        "--bootstrap",
        default=DEFAULT_BOOTSTRAP,
        envvar=BOOTSTRAP_VARIABLE,
        show_default=True,
        metavar="HOST:PORT[,...]",
        help=f"Brokers to ask first; also from the environment variable {BOOTSTRAP_VARIABLE}.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Output for programs.")
    @click.option(
        "--connect-timeout",
        "connect_timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=5,
        show_default=True,
        metavar="SECONDS",
        help="How long to look for a broker.",
    )
    @functools.wraps(function)
    def run(bootstrap: str, as_json: bool, connect_timeout_s: float, **arguments: Any) -> None:
        from minikafka_client.core.cluster import parse_bootstrap

        try:
            parse_bootstrap(bootstrap)
        except ValueError as error:
            raise click.UsageError(f"--bootstrap: {error}") from None
        target = Target(bootstrap, as_json, connect_timeout_s)
        with reader_may_leave():
            _run(functools.partial(function, target, **arguments))

    return run


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


@contextmanager
def reader_may_leave() -> Generator[None]:
    """End quietly when the reader of our stdout is gone, as in ``minikafka ... | head``.

    Raises:
        CommandFailed: stdout cannot be written to for another reason.
    """
    try:
        yield
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        raise cannot_write(error) from None


def _drop_stdout() -> None:
    """The interpreter flushes stdout once more when it ends; let that go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def cancelled_by_signals(stop: Stop) -> Generator[None]:
    """Cancel the block when SIGINT or SIGTERM comes; `stop` says afterwards which one it was.

    A second signal while the block unwinds does nothing more. Needs trio, in the main thread.
    """
    import trio

    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:

        def on_signal(number: int, _frame: object) -> None:
            stop.signal_number = number
            token.run_sync_soon(scope.cancel, idempotent=True)

        previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@asynccontextmanager
async def connected(
    target: Target, **options: Unpack[ConnectionOptions]
) -> AsyncGenerator[AdminClient]:
    """An admin client that has reached a broker.

    Args:
        target: where.
        **options: how to connect, where it matters to the command.

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
    show_lasting_trouble(_CLIENT_LOGGER)
    connection: ConnectionOptions = {**target.connection, **options}
    async with AdminClient(target.bootstrap, **connection) as admin:
        yield admin


async def require_topics(admin: AdminClient, names: Iterable[str]) -> None:
    """Check that topics exist.

    Raises:
        CommandFailed: one does not; the message has the nearest names.
    """
    known = await admin.list_topics(include_internal=True)
    for name in names:
        if name not in known:
            raise unknown_name(
                "topic", name, known, f"create it with `minikafka topic create {name}`"
            )
