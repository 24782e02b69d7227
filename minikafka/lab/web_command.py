"""``minikafka lab web``: the lab in the browser."""

from __future__ import annotations

import tempfile
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click

from ..cli.failure import CommandFailed
from ..cli.output import note
from .web.bundle import BundleError
from .web.site import SiteError, build_site


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    # The parameter has the name that the base class gives it.
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@click.command("web")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True)
@click.option(
    "--pyodide",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The unpacked npm package pyodide; without it, npm fetches it.",
)
@click.option(
    "--build",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the page to this folder, whose index.html can be opened, and serve nothing.",
)
@click.option("--open/--no-open", "opens", default=True, help="Open a browser.")
def command(port: int, pyodide: Path | None, folder: Path | None, opens: bool) -> None:
    r"""Run the simulation in a web page, where you can break it yourself.

    The page runs the same Python code as `lab run`. It is served on 127.0.0.1 until Ctrl-C; nothing
    is sent anywhere.

    \b
    For example:
      minikafka lab web
      minikafka lab web --build ./site      # to be opened from a folder
    """
    if folder is not None:
        _build(folder, pyodide)
        click.echo(folder / "index.html")
        return
    with tempfile.TemporaryDirectory(prefix="minikafka-lab-") as temporary:
        try:
            handler = partial(_Quiet, directory=temporary)
            server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError as error:
            raise CommandFailed(
                f"cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another --port"
            ) from None
        with server:
            _build(Path(temporary), pyodide)
            address = f"http://127.0.0.1:{server.server_address[1]}/"
            click.echo(f"ready: {address}")
            if opens:
                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                note("stopped")


def _build(folder: Path, pyodide: Path | None) -> None:
    try:
        build_site(folder, pyodide)
    except (SiteError, BundleError, OSError) as error:
        raise CommandFailed(str(error)) from None
