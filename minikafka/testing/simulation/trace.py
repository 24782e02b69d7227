"""What happened in a run, and what makes it happen the same way again."""

from __future__ import annotations

import hashlib
import importlib
import logging
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

import trio

from .network import HOST

_LINES_MAX: Final = 400


def now() -> float:
    """The simulated time in seconds; 0 outside a run."""
    with suppress(RuntimeError):
        return trio.current_time()
    return 0.0


class Trace(logging.Handler, trio.abc.Instrument):
    """Events as people read them, and a hash of everything that runs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=_LINES_MAX)
        self._hash = hashlib.sha256()

    def note(self, text: str) -> None:
        """Write a line."""
        line = f"{now():9.4f}  {text}"
        self.lines.append(line)
        self._hash.update(line.encode())

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of minikafka's log."""
        self.note(f"[{HOST.get('')}] {record.getMessage()}")

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take a step into the hash."""
        self._hash.update(f"{now()!r} {task.name}\n".encode())

    def text(self) -> str:
        """The last lines."""
        return "\n".join(self.lines)

    @property
    def fingerprint(self) -> str:
        """Equal for runs that did the same, step by step."""
        return self._hash.hexdigest()


@contextmanager
def seeded(seed: int, trace: Trace) -> Generator[None]:
    """Trio's schedule follows from the seed, and minikafka's log goes into the trace."""
    core: Any = importlib.import_module("trio._core._run")
    before = core._ALLOW_DETERMINISTIC_SCHEDULING
    core._ALLOW_DETERMINISTIC_SCHEDULING = True
    core._r.seed(seed)
    root = logging.root.manager
    disabled, root.disable = root.disable, logging.NOTSET
    try:
        with _logged("minikafka", trace), _logged("minikafka_client", trace):
            yield
    finally:
        core._ALLOW_DETERMINISTIC_SCHEDULING = before
        core._r.seed()
        root.disable = disabled


@contextmanager
def _logged(name: str, trace: Trace) -> Generator[None]:
    logger = logging.getLogger(name)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(trace)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(trace)
        logger.setLevel(level)
        logger.propagate = propagates
