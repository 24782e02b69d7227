"""What programs get from outside of trio: the time of day, randomness, threads."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, TypeVar
from unittest.mock import patch

import trio

from .life import LIFE
from .node import WALL_MS_FIRST

_T = TypeVar("_T")
_real_time_ns = time.time_ns
_real_monotonic_ns = time.monotonic_ns


def time_ns() -> int:
    """The time of day of the process that asks; the real one outside a simulation."""
    try:
        now = trio.current_time()
    except RuntimeError:
        return _real_time_ns()
    life = LIFE.get()
    ahead_ms = 0 if life is None else life.clock_ms
    return (WALL_MS_FIRST + ahead_ms) * 1_000_000 + int(now * 1e9)


def _monotonic_ns() -> int:
    try:
        return int(trio.current_time() * 1e9)
    except RuntimeError:
        return _real_monotonic_ns()


async def _run_here(function: Callable[..., _T], *arguments: Any, **_: Any) -> _T:
    """What a thread would do: the simulation has none, since they run in real time."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


@contextmanager
def simulated(seed: int) -> Generator[None]:
    """The clocks of `time` are simulated, and `random`, `uuid` and `secrets` follow the seed.

    A name that a program has imported from `time` (``from time import time``) is not replaced.
    """
    producer = import_module("minikafka_client.trio_api.producer")
    bytes_of_the_system = random.Random(f"system {seed}").randbytes
    state = random.getstate()
    random.seed(f"program {seed}")
    replaced: list[tuple[Any, str, Any]] = [
        (time, "time", lambda: time_ns() / 1e9),
        (time, "time_ns", time_ns),
        (time, "monotonic", lambda: _monotonic_ns() / 1e9),
        (time, "monotonic_ns", _monotonic_ns),
        (producer, "time", lambda: time_ns() / 1e9),
        (producer, "time_ns", time_ns),
        (os, "urandom", bytes_of_the_system),
        (random, "_urandom", bytes_of_the_system),
        (trio.to_thread, "run_sync", _run_here),
    ]
    try:
        with ExitStack() as stack:
            for owner, name, replacement in replaced:
                stack.enter_context(patch.object(owner, name, replacement))
            yield
    finally:
        random.setstate(state)
