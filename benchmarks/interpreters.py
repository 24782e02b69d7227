"""Brokers under other Python interpreters than the one that measures.

An interpreter is named by its path, or by a name in PATH, and must be able to import minikafka:
that of a virtual environment, as ``make bench-pythons`` makes them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from . import started_by
from .workload import Figure, Round, Run, Workload

RECORDS: Final = 400_000
REQUESTS: Final = 10_000
VALUE_BYTES: Final = 100
_ASK: Final = "import platform, minikafka.cli.main; print(platform.python_version())"

interpreter: ContextVar[str | None] = ContextVar("interpreter", default=None)
"""What brokers are started with; None is the interpreter that measures."""


class InterpreterError(Exception):
    """An interpreter is not there, or cannot import minikafka; the text says what to do."""


def find_interpreter(name: str) -> tuple[str, str]:
    """The path of an interpreter that can run a broker, and its version, ``3.13.0``.

    Raises:
        InterpreterError: it is not there, or cannot import minikafka.
    """
    path = shutil.which(name)
    if path is None:
        raise InterpreterError(f"there is no interpreter {name}")
    finished = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False)
    if finished.returncode:
        last = (finished.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InterpreterError(
            f"{name} cannot import minikafka ({last}); give the interpreter of a virtual "
            "environment that has it, as `make bench-pythons` makes them"
        )
    # Not resolved: the link in a virtual environment is what makes its packages known.
    return str(Path(path).absolute()), finished.stdout.strip()


def prefix() -> tuple[str, ...]:
    """Words before the command of a broker that have it run by the chosen interpreter."""
    chosen = interpreter.get()
    return () if chosen is None else (chosen, "-I", "-S", started_by.__file__)


# --- side by side --------------------------------------------------------------------------------


def compare_interpreters(names: Sequence[str]) -> Workload:
    """A workload whose sides are interpreters; this one comes first.

    Raises:
        InterpreterError: one of them is not there, or cannot import minikafka.
    """
    found = [find_interpreter(name) for name in (sys.executable, *names)]
    paths = {version: path for path, version in found}
    first, *others = paths

    def measure(run: Run) -> Iterator[Round]:
        def side_of(version: str) -> Callable[[], Round]:
            return lambda: _measure(run, version, paths[version])

        for version in others:
            run.say(f"first start under {version}, which compiles")
            _start_once(run, paths[version])
        yield from run.interleaved(**{version: side_of(version) for version in paths})

    rows: tuple[tuple[str, str, str], ...] = (
        ("start to ready", "ready", "s"),
        ("memory after the start", "memory", "MB"),
        ("p50 of one produce", "p50", "us"),
        ("processor time of one produce", "cpu", "us/request"),
        ("processor time of a produced record", "record", "us/record"),
    )
    return Workload(
        name="python versions",
        measures="The broker under each interpreter, by turns: start, memory, one record of 100 B "
        "per request from a bare socket, 400,000 records through librdkafka.",
        function=measure,
        figures=(
            *(
                Figure(
                    name=f"Python {version}, {words}, over {first}",
                    unit="x",
                    of=f"{version} {measure}",
                    per=f"{first} {measure}",
                    good="lower",
                )
                for words, measure, _ in rows
                for version in others
            ),
            *(
                Figure(name=f"Python {version}, {words}", unit=unit, of=f"{version} {measure}")
                for words, measure, unit in rows
                for version in paths
            ),
        ),
        rounds=5,
    )


def _start_once(run: Run, path: str) -> None:
    from .processes import broker

    token = interpreter.set(path)
    try:
        with run.fresh_folder() as folder, broker(folder):
            pass
    finally:
        interpreter.reset(token)


def _measure(run: Run, version: str, path: str) -> Round:
    # They start brokers, and so need this module.
    from .load.scheduled import percentile
    from .processes import broker, cpu_seconds, resident_bytes
    from .raw_client import RawClient, produce_request
    from .suite.loads import fill
    from .suite.servers import Served
    from .workloads.produce_latency import TOPIC, prepare_topic

    token = interpreter.set(path)
    try:
        with run.fresh_folder() as folder, broker(folder) as server:
            found = {
                f"{version} ready": server.process.ready_seconds,
                f"{version} memory": resident_bytes(server.pid) / 1e6,
            }
            requests = max(100, run.scaled(REQUESTS))
            with closing(RawClient(server.bootstrap)) as client:
                request = produce_request(TOPIC, 0, b"x" * VALUE_BYTES)
                size = prepare_topic(client, request)
                client.latencies_seconds(request, size, requests // 5)
                before = cpu_seconds(server.pid)
                taken = sorted(client.latencies_seconds(request, size, requests))
                spent = cpu_seconds(server.pid) - before
            found[f"{version} p50"] = 1e6 * percentile(taken, 50)
            found[f"{version} cpu"] = 1e6 * spent / requests
            filled = fill(
                Served(version, server.bootstrap, lambda: [server.pid]),
                "filled",
                records=run.scaled(RECORDS),
                value_bytes=VALUE_BYTES,
                name="record",
            )
            found[f"{version} record"] = filled[f"{version} record cpu"]
    finally:
        interpreter.reset(token)
    return found
