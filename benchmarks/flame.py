"""Where brokers spend their time: samples of their stacks, by py-spy (in the extra bench).

py-spy reads the memory of another process while that runs, so the broker needs no changes and pays
for nothing but short stops. The system may forbid that to anyone but the process's parent or root.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Literal

SAMPLES_PER_SECOND: Final = 200
_WRITE_SECONDS_MAX: Final = 60.0
_NO_SAMPLE: Final = "No stack counts found"
Format = Literal["flamegraph", "raw"]


class ProfileError(Exception):
    """There is no py-spy, or it may not look at the process; the text says what to do."""


class FlameGraphs:
    """Writes a flame graph for each process that it is asked to watch.

    Args:
        path: of the first one, ``NAME.svg``; the next ones are ``NAME-2.svg`` and so on.

    Attributes:
        written: the files so far.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.written: list[Path] = []

    def next_path(self) -> Path:
        """Where the next process's graph goes."""
        number = len(self.written) + 1
        suffix = self._path.suffix or ".svg"
        name = f"{self._path.stem}{f'-{number}' if number > 1 else ''}{suffix}"
        self.written.append(self._path.with_name(name))
        return self.written[-1]


flame_graphs: ContextVar[FlameGraphs | None] = ContextVar("flame_graphs", default=None)
"""Set while a workload runs with ``--profile``: every broker that starts is watched."""


@contextmanager
def watched(pids: Sequence[int]) -> Generator[None]:
    """Watch processes during a block, if somebody wants flame graphs.

    Raises:
        ProfileError: py-spy is missing, or may not look at them.
    """
    graphs = flame_graphs.get()
    if graphs is None:
        yield
        return
    with ExitStack() as stack:
        for pid in pids:
            stack.enter_context(sampled(pid, graphs.next_path(), "flamegraph"))
        yield


@contextmanager
def sampled(
    pid: int,
    path: Path,
    format_: Format,
    *,
    rate: int = SAMPLES_PER_SECOND,
    is_native: bool = False,
) -> Generator[None]:
    """Sample a process's stacks during a block, and write them to a file after it.

    There is no file if the process did nothing during the block.

    Args:
        pid: the process.
        path: the file; ``flamegraph`` is an SVG, ``raw`` a line for each stack with its count.
        format_: of the file.
        rate: samples per second.
        is_native: whether frames of C and system calls are wanted, too.

    Raises:
        ProfileError: py-spy is missing, or may not look at the process.
    """
    command = [
        *(_program(), "record", "--pid", str(pid), "--output", str(path), "--format", format_),
        *("--rate", str(rate), *(["--native"] if is_native else [])),
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        yield
    finally:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=_WRITE_SECONDS_MAX)
    is_idle = _NO_SAMPLE in said
    if not is_idle and (process.returncode or not path.exists()):
        raise ProfileError(
            f"py-spy could not watch process {pid}: {' '.join((first + said).split())}; run it as "
            "root, or allow it (kernel.yama.ptrace_scope=0)"
        )


def _program() -> str:
    """The path of py-spy, beside this interpreter or in PATH."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise ProfileError("there is no py-spy here: pip install 'minikafka[bench]'")
    return found
