"""A server in a process of its own that says when it is ready, as `minikafka` commands do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Final

import trio

MINIKAFKA: Final = (sys.executable, "-m", "minikafka.cli.main")
_READY: Final = b"ready: "


async def start_until_ready(
    command: Sequence[str], log_path: Path, *, patience_s: float, stop_patience_s: float
) -> tuple[trio.Process, str]:
    """Start a server, and return when it serves: its process and what follows ``ready:``.

    Args:
        command: what to execute.
        log_path: where to add what it says on stderr.
        patience_s: how long it may take to start.
        stop_patience_s: how long it may take to stop, if it does not start.

    Raises:
        RuntimeError: it did not start, and was stopped; the message has the end of its log.
    """
    with log_path.open("ab") as log:
        process = await trio.lowlevel.open_process(command, stdout=PIPE, stderr=log)
    assert process.stdout is not None
    line = b""
    try:
        with trio.move_on_after(patience_s):
            while not line.endswith(b"\n"):
                piece = await process.stdout.receive_some()
                if not piece:
                    break
                line += piece
    finally:
        if not (line.startswith(_READY) and line.endswith(b"\n")):
            await stop(process, stop_patience_s)
    if process.returncode is not None:
        text = await trio.Path(log_path).read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"`{' '.join(command)}` did not start; it says:\n{text[-2000:]}")
    return process, line.removeprefix(_READY).decode().strip()


async def stop(process: trio.Process, patience_s: float) -> None:
    """SIGTERM, and SIGKILL if that takes too long; also while the caller is cancelled."""
    with trio.CancelScope(shield=True):
        process.terminate()
        with trio.move_on_after(patience_s):
            await process.wait()
        process.kill()
        await process.wait()
