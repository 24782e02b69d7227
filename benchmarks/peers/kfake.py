"""kfake of franz-go: a Kafka for tests, written in Go, that keeps everything in memory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from minikafka.testing.process import ServerProcess, wait_until_ready

from ..processes import ROOT, ProcessFailedError

_SOURCE = Path(__file__).parent / "kfake_server"
_PROGRAM = ROOT / "build" / "benchmarks" / "kfake"


@contextmanager
def kfake(folder: Path) -> Generator[str]:
    """The bootstrap address of one broker, which runs during a block.

    It is built when it is used for the first time, with the versions that ``go.sum`` pins.

    Raises:
        ProcessFailedError: there is no Go, or it cannot be built.
    """
    _build()
    folder.mkdir(parents=True, exist_ok=True)
    server = ServerProcess("kfake", [str(_PROGRAM)], folder / "kfake.stderr")
    try:
        wait_until_ready([server])
        yield server.address
    finally:
        server.kill()


def _build() -> None:
    go = shutil.which("go")
    if go is None:
        raise ProcessFailedError("kfake is written in Go, and there is no go command here")
    _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        [go, "build", "-o", str(_PROGRAM), "."],
        cwd=_SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise ProcessFailedError(f"kfake cannot be built: {built.stderr.strip()[-500:]}")
