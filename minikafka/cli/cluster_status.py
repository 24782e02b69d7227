"""``minikafka cluster status``: who leads, who lives, who lags."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .cluster_files import DATA_DIR_VARIABLE, DEFAULT_DATA_DIR, Cluster, ClusterFiles
from .cluster_view import View, is_paused, status_document, view_of
from .failure import CommandFailed
from .output import is_terminal, print_json, print_table, terminal_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .cluster_picture import Picture

_PATIENCE_MS: Final = 3000


@click.command("status")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=DATA_DIR_VARIABLE,
    help=f"Where the cluster lives; also from {DATA_DIR_VARIABLE}.  "
    f"[default: ./{DEFAULT_DATA_DIR}]",
)
@click.option(
    "--bootstrap",
    metavar="HOST:PORT[,...]",
    help="Any other cluster, which has no directory here.",
)
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="How often with --watch.",
)
@click.option("--check", is_flag=True, help="Exit with 1 unless everything is as it should be.")
@click.option("--json", "as_json", is_flag=True, help="Output for programs; a line each time.")
def command(
    data_dir: Path | None,
    bootstrap: str | None,
    watch: bool,
    interval_s: float,
    check: bool,
    as_json: bool,
) -> None:
    r"""Show a cluster: its processes, its brokers, its metadata quorum, partitions in trouble.

    A broker is alive, fenced (the controller does not hear it: it leads nothing) or unknown. Lag is
    in entries of the metadata log. A partition is under-replicated while replicas are missing in
    its ISR, and offline while it has no leader.

    Exits with 1 if no broker answers; with --check also if a broker is missing or a partition is in
    trouble.

    \b
    Examples:
      minikafka cluster status --watch
      until minikafka cluster status --check; do sleep 1; done
      minikafka cluster status --bootstrap kafka1:9092,kafka2:9092 --json
    """
    import trio

    from .cluster_command import reader_may_leave

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
    """Looks and shows.

    Args:
        files: the cluster's directory, if it has one here.
        bootstrap: where to ask; from the directory if None.
        as_json: how to show it.
    """

    def __init__(self, files: ClusterFiles | None, bootstrap: str | None, as_json: bool) -> None:
        self._files = files
        self._bootstrap = bootstrap
        self._as_json = as_json

    async def once(self, check: bool) -> None:
        """Look once.

        Raises:
            CommandFailed: nobody answers; or with `check` something is in trouble.
        """
        cluster = self._read()
        picture, trouble = await self._ask(cluster)
        document = status_document(cluster, picture)
        if self._as_json:
            print_json(document)
        else:
            _print(view_of(document))
        if trouble is not None:
            raise CommandFailed(trouble)
        if check and not document["is_healthy"]:
            raise CommandFailed("not everything is as it should be; see above")

    async def watch(self, interval_s: float) -> None:
        """Look until somebody ends it."""
        import trio
        from rich.live import Live

        if self._as_json or not is_terminal(sys.stdout):
            while True:
                await self._look_and_print()
                await trio.sleep(interval_s)
        with Live(screen=True, auto_refresh=False) as live:
            while True:
                cluster = self._read()
                picture, trouble = await self._ask(cluster)
                view = view_of(status_document(cluster, picture))
                live.update(_on_terminal(view, trouble))
                live.refresh()
                await trio.sleep(interval_s)

    async def _look_and_print(self) -> None:
        cluster = self._read()
        picture, trouble = await self._ask(cluster)
        document = status_document(cluster, picture)
        if self._as_json:
            print_json(document)
        else:
            _print(view_of(document))
            if trouble is not None:
                click.echo(trouble)
        sys.stdout.flush()

    def _read(self) -> Cluster | None:
        return None if self._files is None else self._files.read_existing()

    async def _ask(self, cluster: Cluster | None) -> tuple[Picture | None, str | None]:
        """What the cluster says of itself, or why it does not."""
        from minikafka_client import AdminClient, KafkaError

        from .cluster_picture import take_picture

        bootstrap = self._bootstrap or ""
        if cluster is not None:
            # Who is dead or paused would only keep us waiting.
            bootstrap = ",".join(
                node.listener
                for node in cluster.nodes
                if node.pid is not None and not is_paused(node.pid)
            )
        if not bootstrap:
            return None, "no broker runs"
        try:
            async with AdminClient(
                bootstrap,
                client_id="minikafka-cli",
                connect_timeout_ms=_PATIENCE_MS,
                request_timeout_ms=_PATIENCE_MS,
                api_timeout_ms=_PATIENCE_MS,
            ) as admin:
                return await admin.run_plan(take_picture), None
        except KafkaError as error:
            return None, f"no broker answers at {bootstrap} ({error})"


def _print(view: View) -> None:
    for line in view.summary:
        click.echo(line)
    for table in view.tables:
        print_table(table.columns, table.rows, title=table.title)


def _on_terminal(view: View, trouble: str | None) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    lines = [Text(line) for line in ([trouble] if trouble else view.summary)]
    tables = [terminal_table(table.columns, table.rows, table.title) for table in view.tables]
    return Group(*lines, *tables)
