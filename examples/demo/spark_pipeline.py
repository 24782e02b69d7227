"""Runs the pipeline of `examples.flights` in a Spark process; see `spark_side.py`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import trio
from rich.progress import Progress
from rich.text import Text

_PACKAGES: Final = ("pyspark", "pyarrow", "numpy")


@dataclass(frozen=True)
class Landing:
    """What landed.

    Attributes:
        raw: rows in Parquet.
        raw_once: distinct rows.
        hours: rows with delays of a carrier and an hour.
        flights_in_hours: the flights that they count.
        alerts: records in the topic of alerts.
        alerts_once: distinct alerts.
    """

    raw: int
    raw_once: int
    hours: int
    flights_in_hours: int
    alerts: int
    alerts_once: int

    def is_exactly(self, flights: int) -> bool:
        """Whether every flight is in both tables once, and no alert is duplicated."""
        whole = {self.raw, self.raw_once, self.flights_in_hours}
        return whole == {flights} and self.alerts == self.alerts_once


class SparkPipeline:
    """The process: call `run` in a task of its own, then `finish`.

    Args:
        directory: has ``client.properties``; for the folder `lake` and Spark's log.
        progress: shows a bar.
        records: the expected number of flights.

    Attributes:
        landing: the result, after `finish`.
        is_clean: the verdict of the audit.
    """

    def __init__(self, directory: Path, progress: Progress, records: int) -> None:
        self.landing: Landing | None = None
        self.is_clean = False
        self._progress = progress
        self._task = progress.add_task("Spark", total=records)
        self._log_path = directory / "spark.log"
        self._is_over = trio.Event()
        console = progress.console
        words = ["--config", str(directory / "client.properties")]
        words += ["--into", str(directory / "lake")]
        words += ["--width", str(console.width)] + ["--terminal"] * console.is_terminal
        self._command = [sys.executable, "-m", "examples.demo.spark_side", *words]
        self._process: trio.Process | None = None

    @staticmethod
    def missing() -> str | None:
        """What is missing for Spark, in one line; None if nothing is."""
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            return "it needs Java 17 or later, and there is no java on the PATH"
        absent = [name for name in _PACKAGES if find_spec(name) is None]
        if absent:
            return f"there is no {' and no '.join(absent)}; pip install '.[spark]'"
        return None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the process until it ends after `finish`; cancellation kills it.

        Raises:
            RuntimeError: it failed; the message has the end of its log.
        """
        with self._log_path.open("ab") as log:
            self._process = await trio.lowlevel.open_process(
                self._command, stdin=PIPE, stdout=PIPE, stderr=log
            )
        task_status.started()
        try:
            async for event in self._events():
                self._take(event)
            code = await self._process.wait()
        finally:
            self._process.kill()
        if code or self.landing is None:
            text = self._log_path.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"Spark exited with {code}; its log ends with:\n{text[-3000:]}")
        self._is_over.set()

    async def finish(self, expected: dict[str, int]) -> None:
        """Wait until all flights of the topic have landed and are audited.

        Args:
            expected: the number of records of each producer.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(expected).encode() + b"\n")
        await self._is_over.wait()

    async def _events(self) -> AsyncIterator[dict[str, Any]]:
        assert self._process is not None
        assert self._process.stdout is not None
        unread = b""
        async for piece in self._process.stdout:
            *lines, unread = (unread + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    yield json.loads(line)

    def _take(self, event: dict[str, Any]) -> None:
        console = self._progress.console
        match event.pop("event"):
            case "ready":
                console.print("Spark reads: flights and delays into Parquet, alerts into a topic")
            case "progress":
                self._progress.update(self._task, completed=event["rows"])
            case "landed":
                self.landing = Landing(**event)
            case "audit":
                self.is_clean = event["clean"]
                console.print("[bold]python -m pyspark_minikafka.audit flights --first 0[/]")
                console.print(Text.from_ansi(event["shown"]))
            case _:
                pass
