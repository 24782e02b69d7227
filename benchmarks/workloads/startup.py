"""How long a broker takes to start, and how much memory it takes then."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from ..processes import ROOT, broker, resident_bytes
from ..workload import Figure, Round, Run, Workload


def measure(run: Run) -> Iterator[Round]:
    """Start on an empty directory; for comparison, start the interpreter and import trio."""

    def ours() -> Round:
        with run.fresh_folder() as folder, broker(folder) as server:
            return {
                "ready": server.process.ready_seconds,
                "memory": resident_bytes(server.pid) / 1e6,
            }

    def interpreter() -> Round:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import trio"], check=True, cwd=ROOT)
        return {"interpreter": time.perf_counter() - started}

    ours()  # compiles what has changed since the last run
    return run.interleaved(minikafka=ours, interpreter_and_trio=interpreter)


WORKLOAD = Workload(
    name="startup",
    measures="From the start of the process to its `ready` line, on an empty directory; resident "
    "memory at that moment.",
    function=measure,
    figures=(
        Figure(name="over import trio", unit="x", of="ready", per="interpreter", at_most=1.8),
        Figure(name="to ready", unit="s", of="ready", at_most=0.40),
        Figure(name="resident memory", unit="MB", of="memory", at_most=60),
        Figure(name="interpreter and trio alone", unit="s", of="interpreter"),
    ),
    rounds=9,
)
