"""``minikafka cluster kill|pause|resume|start``: make single nodes fail and recover."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from ..failure import CommandFailed
from ..output import note, print_json
from .files import Cluster, ClusterFiles, Node, NodeState, data_dir_option
from .names import node_ids_of
from .process import describe_end, is_still_running, tail_of
from .supervisor import READY_SECONDS_MAX, START, TAIL_LINES

_POLL_INTERVAL_S: Final = 0.02
_END_SECONDS_MAX: Final = 30.0
_PAUSE_SECONDS_MAX: Final = 5.0
_ENDING: Final = {"KILL", "TERM", "INT", "QUIT", "ABRT"}


def _node_command(function: Callable[..., None]) -> Callable[..., None]:
    """NODE..., ``--data-dir`` and ``--json``."""
    function = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        function
    )
    return click.argument("nodes", metavar="NODE...", nargs=-1, required=True)(
        data_dir_option(function)
    )


def _signal_name(context: click.Context, option: click.Parameter, text: str) -> signal.Signals:
    del context, option
    name = text.upper().removeprefix("SIG")
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise click.BadParameter(f"there is no signal {text!r}; try KILL, TERM or STOP") from None


@click.command("kill")
@click.option(
    "--signal",
    "wanted",
    default="KILL",
    show_default=True,
    callback=_signal_name,
    metavar="NAME",
    help="Signal to send; TERM asks a broker to shut down cleanly.",
)
@_node_command
def kill(nodes: tuple[str, ...], data_dir: Path, wanted: signal.Signals, as_json: bool) -> None:
    r"""Kill brokers without warning, like a crash: SIGKILL.

    Waits until they have ended. They stay dead until `minikafka cluster start`. NODE is a number,
    `all`, `controller` (the leader of the metadata quorum), or `leader:TOPIC` or `followers:TOPIC`
    for partition 0 of a topic; for other partitions, `leader:TOPIC:PARTITION`.

    \b
    Examples:
      minikafka cluster kill 2
      minikafka cluster kill leader:orders
      minikafka cluster kill 1 --signal TERM
    """
    files = ClusterFiles(data_dir)
    killed = [
        _signal(files, node_id, wanted) for node_id in node_ids_of(files, nodes, is_running=True)
    ]
    is_end = wanted.name.removeprefix("SIG") in _ENDING
    ended = [_wait_for_end(files, node) for node in killed if is_end]
    _print_nodes(as_json, killed, f"sent {wanted.name} to", {"signal": wanted.name})
    for node in ended:
        assert node.exit_code is not None
        if not as_json:
            click.echo(f"node {node.node_id} {describe_end(node.exit_code)}")


@click.command("pause")
@_node_command
def pause(nodes: tuple[str, ...], data_dir: Path, as_json: bool) -> None:
    r"""Freeze brokers wherever they are: SIGSTOP.

    They keep their connections but answer no requests, like a machine that hangs. After some
    seconds the cluster goes on without them. When `minikafka cluster resume` wakes them up, they
    have to find out that they have been replaced. For NODE, see `minikafka cluster kill`.

    \b
    Examples:
      minikafka cluster pause 1
      minikafka cluster pause controller
    """
    files = ClusterFiles(data_dir)
    node_ids = node_ids_of(files, nodes, is_running=True)
    paused = [_signal(files, node_id, signal.SIGSTOP) for node_id in node_ids]
    for node in paused:
        _wait_until_paused(node)
    _print_nodes(as_json, paused, "paused")


@click.command("resume")
@_node_command
def resume(nodes: tuple[str, ...], data_dir: Path, as_json: bool) -> None:
    r"""Let paused brokers continue: SIGCONT.

    \b
    Examples:
      minikafka cluster resume 1
    """
    files = ClusterFiles(data_dir)
    node_ids = node_ids_of(files, nodes, is_running=True)
    _print_nodes(
        as_json, [_signal(files, node_id, signal.SIGCONT) for node_id in node_ids], "resumed"
    )


@click.command("start")
@click.option("--no-wait", is_flag=True, help="Do not wait until they are ready.")
@_node_command
def start(nodes: tuple[str, ...], data_dir: Path, no_wait: bool, as_json: bool) -> None:
    r"""Start dead brokers again, and wait until they are ready.

    A broker is ready only when a majority of the controllers is running. So when two of three are
    dead, start both with one command. `all` means all that are dead.

    \b
    Examples:
      minikafka cluster start 2
      minikafka cluster start all
    """
    files = ClusterFiles(data_dir)
    files.require_supervisor()
    cluster = files.read_existing()
    wanted = node_ids_of(files, nodes, is_running=False)
    before = [cluster.node(node_id) for node_id in wanted]
    for node in before:
        if node.pid is not None:
            raise CommandFailed(
                f"node {node.node_id} is already running, as process {node.pid}; "
                f"`minikafka cluster kill {node.node_id}` would kill it"
            )
    for node in before:
        files.request(f"{START} {node.node_id}")
    wait = _wait_until_started if no_wait else _wait_until_ready
    _print_nodes(as_json, [wait(files, node) for node in before], "started")


def _signal(files: ClusterFiles, node_id: int, number: signal.Signals) -> Node:
    """Signal a node's process; return the node as it was before.

    Raises:
        CommandFailed: the cluster or the node is not running.
    """
    files.require_supervisor()
    cluster = files.read_existing()
    node = cluster.node(node_id)
    try:
        if node.pid is None:
            raise ProcessLookupError
        os.kill(node.pid, number)
    except ProcessLookupError:
        how = "" if node.exit_code is None else f"; it {describe_end(node.exit_code)}"
        raise CommandFailed(
            f"node {node_id} is not running{how}. Start it with `minikafka cluster start {node_id} "
            f"--data-dir {files.directory}`"
        ) from None
    except PermissionError:
        raise CommandFailed(
            f"cannot signal process {node.pid} of node {node_id}: it belongs to another user"
        ) from None
    return node


def _wait_for_end(files: ClusterFiles, before: Node) -> Node:
    def has_ended(cluster: Cluster) -> Node | None:
        node = cluster.node(before.node_id)
        return node if node.pid != before.pid else None

    ended = _wait(files, has_ended, _END_SECONDS_MAX)
    if ended is None:
        raise CommandFailed(
            f"node {before.node_id} (process {before.pid}) is still running after "
            f"{_END_SECONDS_MAX:.0f} s; is it paused? Kill it with `minikafka cluster kill "
            f"{before.node_id}`"
        )
    return ended


def _wait_until_paused(node: Node) -> None:
    """Wait until SIGSTOP has taken effect.

    The kernel delivers the signal when it next schedules the process, which takes a while on a busy
    machine. Until then, the status would not show the node as paused.
    """
    assert node.pid is not None
    deadline = time.monotonic() + _PAUSE_SECONDS_MAX
    while is_still_running(node.pid):
        if time.monotonic() > deadline:
            raise CommandFailed(
                f"node {node.node_id} (process {node.pid}) is still running "
                f"{_PAUSE_SECONDS_MAX:.0f} s after SIGSTOP; is its disk stuck, or does something "
                f"wake it up?"
            )
        time.sleep(_POLL_INTERVAL_S)  # only its parent could wait for it


def _wait_until_started(files: ClusterFiles, before: Node) -> Node:
    def has_started(cluster: Cluster) -> Node | None:
        node = cluster.node(before.node_id)
        return node if node.starts > before.starts else None

    node = _wait(files, has_started, _END_SECONDS_MAX)
    if node is None:
        raise CommandFailed(f"node {before.node_id} was not started; is the supervisor paused?")
    return node


def _wait_until_ready(files: ClusterFiles, before: Node) -> Node:
    def has_started_or_failed(cluster: Cluster) -> Node | None:
        node = cluster.node(before.node_id)
        is_over = node.starts > before.starts and node.state is not NodeState.STARTING
        return node if is_over else None

    node = _wait(files, has_started_or_failed, READY_SECONDS_MAX)
    if node is None:
        raise CommandFailed(
            f"node {before.node_id} is not ready after {READY_SECONDS_MAX:.0f} s. Is a majority "
            f"of the controllers running? See {files.log_path(before.node_id)}"
        )
    if node.state is NodeState.STOPPED:
        path = files.log_path(node.node_id)
        for line in tail_of(path, TAIL_LINES):
            note(line)
        raise CommandFailed(
            f"node {node.node_id} {describe_end(node.exit_code or 0)} before it was ready; the "
            f"end of {path} is above"
        )
    return node


def _wait(
    files: ClusterFiles, look: Callable[[Cluster], Node | None], seconds_max: float
) -> Node | None:
    """Poll `cluster.json` until `look` finds its node; None if that takes too long.

    Raises:
        CommandFailed: the cluster was stopped in the meantime.
    """
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        files.require_supervisor()
        found = look(files.read_existing())
        if found is not None:
            return found
        time.sleep(_POLL_INTERVAL_S)
    return None


def _print_nodes(
    as_json: bool, nodes: list[Node], done: str, more: dict[str, Any] | None = None
) -> None:
    if as_json:
        entries = [
            {"node_id": node.node_id, "pid": node.pid, "listener": node.listener} for node in nodes
        ]
        print_json({"nodes": entries, **(more or {})})
        return
    for node in nodes:
        click.echo(f"{done} node {node.node_id} (process {node.pid}, {node.listener})")
