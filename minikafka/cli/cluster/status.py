"""``minikafka cluster status``: which nodes are alive, which lead, which lag behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..failure import CommandFailed
from ..output import is_terminal, print_json, print_table, reader_may_leave, terminal_table
from .files import DATA_DIR_VARIABLE, DEFAULT_DATA_DIR, Cluster, ClusterFiles
from .view import View, status_document, view_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .report import ClusterReport


@click.command("status")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=DATA_DIR_VARIABLE,
    help=f"Directory of the cluster; also read from {DATA_DIR_VARIABLE}.  "
    f"[default: ./{DEFAULT_DATA_DIR}]",
)
@click.option(
    "--bootstrap",
    metavar="HOST:PORT[,...]",
    help="Show the cluster of these brokers instead, wherever it runs.",
)
@click.option("--watch", is_flag=True, help="Keep updating until Ctrl-C.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates with --watch.",
)
@click.option("--check", is_flag=True, help="Exit with 1 unless the cluster is healthy.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON, for programs; with --watch, a line per update.",
)
def command(
    data_dir: Path | None,
    bootstrap: str | None,
    watch: bool,
    interval_s: float,
    check: bool,
    as_json: bool,
) -> None:
    r"""Show a cluster: its processes, brokers, metadata quorum, and partitions in trouble.

    A broker is alive, fenced (the controller receives no heartbeats from it, so it leads nothing)
    or unknown. Lag is in entries of the metadata log. A partition is under-replicated while
    replicas are missing from its ISR, and offline while it has no leader.

    The exit code is 1 if no broker answers; with --check, also if a broker is missing or a
    partition is in trouble.

    \b
    Examples:
      minikafka cluster status --watch
      until minikafka cluster status --check; do sleep 1; done
      minikafka cluster status --bootstrap kafka1:9092,kafka2:9092 --json
    """
    import trio

    if data_dir is not None and bootstrap is not None:
        raise click.UsageError("--data-dir and --bootstrap exclude each other")
    files = None if bootstrap is not None else ClusterFiles(data_dir or Path(DEFAULT_DATA_DIR))
    status = _Status(files, bootstrap, as_json)
    with reader_may_leave():
        if watch:
            trio.run(status.watch, interval_s)
        else:
            trio.run(status.once, check)


class _Status:
    """Queries the status of a cluster, and shows it.

    Args:
        files: the cluster's directory, if it has one here.
        bootstrap: brokers to ask if it has none.
        as_json: how to show it.
    """

    def __init__(self, files: ClusterFiles | None, bootstrap: str | None, as_json: bool) -> None:
        self._files = files
        self._bootstrap = bootstrap
        self._as_json = as_json

    async def once(self, check: bool) -> None:
        """Show the status.

        Raises:
            CommandFailed: no broker answers; or, with `check`, the cluster is not healthy.
        """
        document, failure = await self._query()
        self._print(document)
        if failure is not None:
            raise CommandFailed(failure)
        if check and not document["is_healthy"]:
            raise CommandFailed("the cluster is not healthy; see above")

    async def watch(self, interval_s: float) -> None:
        import trio

        if self._as_json or not is_terminal(sys.stdout):
            while True:
                document, failure = await self._query()
                self._print(document)
                if failure is not None and not self._as_json:
                    click.echo(failure)
                sys.stdout.flush()
                await trio.sleep(interval_s)
        from rich.live import Live

        with Live(screen=True, auto_refresh=False) as live:
            while True:
                document, failure = await self._query()
                live.update(_on_terminal(view_of(document), failure))
                live.refresh()
                await trio.sleep(interval_s)

    async def _query(self) -> tuple[dict[str, Any], str | None]:
        """The status document; and if no broker answers, why."""
        cluster = None if self._files is None else self._files.read_existing()
        report, failure = await self._ask(cluster)
        return status_document(cluster, report), failure

    async def _ask(self, cluster: Cluster | None) -> tuple[ClusterReport | None, str | None]:
        from minikafka_client import AdminClient, KafkaError

        from .report import QUICK_CONNECTION, fetch_report

        bootstrap = (self._bootstrap or "") if cluster is None else cluster.bootstrap()
        if not bootstrap:
            return None, "no broker is running"
        try:
            async with AdminClient(bootstrap, **QUICK_CONNECTION) as admin:
                return await admin.run_plan(fetch_report), None
        except KafkaError as error:
            return None, f"no broker answers at {bootstrap} ({error})"

    def _print(self, document: dict[str, Any]) -> None:
        if self._as_json:
            print_json(document)
            return
        view = view_of(document)
        for line in view.summary:
            click.echo(line)
        for table in view.tables:
            print_table(table.columns, table.rows, title=table.title)


def _on_terminal(view: View, failure: str | None) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    lines = [Text(line) for line in ([failure] if failure else view.summary)]
    tables = [terminal_table(table.columns, table.rows, table.title) for table in view.tables]
    return Group(*lines, *tables)
