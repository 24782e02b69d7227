"""Real brokers for tests, each in a process of its own.

    with minikafka.testing.broker(num_partitions=3) as kafka:
        client(kafka.bootstrap)

    with minikafka.testing.cluster(3) as kafka:
        kafka.kill(kafka.leader("orders"))
        client(kafka.bootstrap)

    async with minikafka.testing.in_process_broker() as kafka:
        await client(kafka.bootstrap)

In a trio program write ``async with`` for the first two as well: the event loop runs on while
brokers start and stop. The methods block, there too; call them with `trio.to_thread.run_sync`. The
third runs the broker on the event loop of the program.

Nothing is installed, configured or left behind: ports are free ones, data is in a temporary
directory, and the end of the block ends the processes. A broker that does not start raises
`BrokerStartError` with the end of its log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from .brokers import Broker, LongTurnError
from .channel import CommandError
from .clusters import Cluster, NodeOptions
from .failpoints import FAILPOINTS, Failpoint, FailpointName
from .faults import Clock, Injection, Request
from .process import BrokerStartError
from .settings import DEFAULTS, Setting

if TYPE_CHECKING:
    from .in_process import InProcessBroker
    from .secure import SecureBroker

__all__ = [
    "DEFAULTS",
    "FAILPOINTS",
    "Broker",
    "BrokerStartError",
    "Clock",
    "Cluster",
    "CommandError",
    "Failpoint",
    "FailpointName",
    "Injection",
    "LongTurnError",
    "NodeOptions",
    "Request",
    "Setting",
    "broker",
    "cluster",
    "in_process_broker",
    "secure_broker",
]


def broker(
    settings: Mapping[str, Setting] | None = None,
    /,
    *,
    directory: Path | str | None = None,
    keep: bool = False,
    listen: str = "127.0.0.1:0",
    prefix: Sequence[str] = (),
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    defaults: Mapping[str, Setting] = DEFAULTS,
    control: bool = True,
    **named_settings: Setting,
) -> Broker:
    """A broker of its own, which starts when a ``with`` or ``async with`` block is entered.

    Args:
        settings: by Kafka's names, e.g. ``{"log.retention.ms": 60_000}``.
        directory: for its data and its log, both of which are kept; a temporary directory if None.
        keep: do not remove the temporary directory at the end.
        listen: ``HOST:PORT``, or listeners as in Kafka's setting,
            ``PLAINTEXT://HOST:PORT,SSL://HOST:PORT``, of which `Broker.bootstrap_of` has the
            addresses; port 0 is a free one, which stays the broker's until the end.
        prefix: words before the command, e.g. ``["nice", "-n", "5"]``. They must replace
            themselves by the command (``exec``), for signals are sent to the process they start.
        arguments: further arguments of ``minikafka serve``, e.g. ``["--log-level", "debug"]``.
        environment: variables for the process, in addition to those of this one.
        defaults: settings that hold unless the others say otherwise; see `DEFAULTS`.
        control: whether faults can be injected and the clock be moved. False starts exactly what
            ``minikafka serve`` does, for benchmarks.
        **named_settings: settings with ``_`` for dots: ``num_partitions=3``.

    Raises:
        BrokerStartError: (on entering the block) it did not start, for instance because a setting
            is unknown.
    """
    return Broker(
        {**(settings or {}), **named_settings},
        directory=directory,
        keep=keep,
        listen=listen,
        prefix=prefix,
        arguments=arguments,
        environment=environment,
        defaults=defaults,
        control=control,
    )


def secure_broker(
    settings: Mapping[str, Setting] | None = None,
    /,
    *,
    users: Mapping[str, str] | None = None,
    directory: Path | str | None = None,
    keep: bool = False,
    control: bool = True,
    **named_settings: Setting,
) -> SecureBroker:
    """A broker with TLS, SASL and ACLs; its users and certificates are made when it starts.

    `SecureBroker.client` says how each user connects. Only ``admin`` may do anything, until
    `SecureBroker.allow` lets others.

    Args:
        settings: by Kafka's names.
        users: passwords by name, beside ``admin``; alice and bob if None.
        directory: see `broker`.
        keep: see `broker`.
        control: see `broker`.
        **named_settings: settings with ``_`` for dots.

    Raises:
        BrokerStartError: (on entering the block) it did not start, or trustme, which makes the
            certificates, is not installed.
    """
    from .secure import USERS, SecureBroker

    return SecureBroker(
        {**(settings or {}), **named_settings},
        users=USERS if users is None else users,
        directory=directory,
        keep=keep,
        control=control,
    )


def cluster(
    nodes: int | Sequence[NodeOptions] = 3,
    settings: Mapping[str, Setting] | None = None,
    /,
    *,
    first_id: int = 1,
    directory: Path | str | None = None,
    keep: bool = False,
    environment: Mapping[str, str] | None = None,
    defaults: Mapping[str, Setting] = DEFAULTS,
    control: bool = True,
    **named_settings: Setting,
) -> Cluster:
    """A cluster, which starts when a ``with`` or ``async with`` block is entered.

    Unless settings say otherwise there are as many replicas as nodes, at most three, and
    ``acks=all`` waits for all but one of them, so that one node may be missing.

    Args:
        nodes: how many, or what is particular to each.
        settings: by Kafka's names, for all nodes.
        first_id: the id of the first node, with the others above it. Many Kafka clusters begin
            with 0.
        directory: gets ``node-1/data``, ``node-1/broker.log`` and so on, which are kept; a
            temporary directory if None.
        keep: do not remove the temporary directory at the end.
        environment: variables for the processes, in addition to those of this one.
        defaults: settings that hold unless the others say otherwise; see `DEFAULTS`.
        control: whether faults can be injected and the clock be moved. False starts exactly what
            ``minikafka serve`` does, for benchmarks.
        **named_settings: settings with ``_`` for dots: ``num_partitions=3``.

    Raises:
        BrokerStartError: (on entering the block) a node did not start.
    """
    return Cluster(
        nodes,
        {**(settings or {}), **named_settings},
        first_id=first_id,
        directory=directory,
        keep=keep,
        environment=environment,
        defaults=defaults,
        control=control,
    )


def in_process_broker(
    settings: Mapping[str, Setting] | None = None,
    /,
    *,
    directory: Path | str | None = None,
    keep: bool = False,
    defaults: Mapping[str, Setting] = DEFAULTS,
    **named_settings: Setting,
) -> AbstractAsyncContextManager[InProcessBroker]:
    """A broker on this trio event loop, on a free port, for the time of an ``async with`` block.

    It is the broker of `broker`, and starts in some thirty milliseconds once its code is loaded. It
    shares the clock of the event loop: with trio's ``MockClock`` a test moves the time of broker
    and client together. A debugger sees both sides. What blocks the event loop, blocks the broker:
    clients without trio have to run in threads.

    It is a function of its own, and not an option of `broker`, because what takes time has to be
    awaited here (``await kafka.reset()``), where `broker` has plain calls.

    Args:
        settings: by Kafka's names, e.g. ``{"log.retention.ms": 60_000}``.
        directory: for its data, which are kept; a temporary directory if None.
        keep: do not remove the temporary directory at the end.
        defaults: settings that hold unless the others say otherwise; see `DEFAULTS`.
        **named_settings: settings with ``_`` for dots: ``num_partitions=3``.

    Raises:
        BrokerStartError: (on entering the block) it did not start, for instance because a setting
            is unknown.
    """
    from .in_process import run_in_process

    return run_in_process(
        {**(settings or {}), **named_settings}, directory=directory, keep=keep, defaults=defaults
    )
