"""Runs a program for as long as another process lives: `keeper.py PID LOG COMMAND...`.

Several test processes share one Apache Kafka, and none of them knows whether it is the last. So
the broker is kept by this program, which ends it as soon as the whole test run is over, in
whatever way.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import psutil


def main(watched: int, log_path: Path, command: list[str]) -> int:
    """Run a command until it ends or the watched process does; returns its exit code."""
    with log_path.open("ab") as log:
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )

    def end_with_the_watched() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended before we looked
            psutil.Process(watched).wait()
        program.kill()

    threading.Thread(target=end_with_the_watched, daemon=True).start()
    return program.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
