"""Three brokers, each a process of its own, to be killed: `minikafka cluster up`."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import Final, Self

import trio

_READY: Final = b"ready: "
_READY_PATIENCE_S: Final = 60
_STOP_PATIENCE_S: Final = 20
_COMMAND: Final = (sys.executable, "-m", "minikafka.cli.main", "cluster")


class ClusterProcess(AbstractAsyncContextManager["ClusterProcess"]):
    """``async with ClusterProcess(directory) as cluster``: it serves at `cluster.addresses`.

    Args:
        directory: of the cluster and, in a file beside it, of what it says.

    Attributes:
        addresses: ``HOST:PORT,...`` of all brokers, also of dead ones.
    """

    def __init__(self, directory: Path) -> None:
        self.addresses = ""
        self._data_dir = directory / "cluster"
        self._log_path = directory / "cluster.log"
        self._process: trio.Process | None = None

    async def __aenter__(self) -> Self:
        # As in Kafka, a new group would wait three seconds for more members.
        settings = ("--set", "group.initial.rebalance.delay.ms=0")
        words = ("up", "--brokers", "3", "--port", "0", "--data-dir", str(self._data_dir))
        with self._log_path.open("ab") as log:
            process = await trio.lowlevel.open_process(
                [*_COMMAND, *words, *settings], stdout=PIPE, stderr=log
            )
        self._process = process
        assert process.stdout is not None
        line = b""
        with trio.move_on_after(_READY_PATIENCE_S):
            while not line.endswith(b"\n"):
                piece = await process.stdout.receive_some()
                if not piece:
                    break
                line += piece
        if not line.startswith(_READY):
            await self._stop()
            text = self._log_path.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the cluster did not start; it says:\n{text[-2000:]}")
        self.addresses = line.removeprefix(_READY).decode().strip()
        return self

    async def kill_leader(self, topic: str, partition: int) -> None:
        """SIGKILL to the broker that leads a partition; returns when it is gone."""
        await self._run("kill", f"leader:{topic}:{partition}")

    async def start_dead(self) -> None:
        """Start what was killed; returns when it serves."""
        await self._run("start", "all")

    async def _run(self, *words: str) -> None:
        await trio.run_process(
            [*_COMMAND, *words, "--data-dir", str(self._data_dir)], capture_stdout=True
        )

    async def _stop(self) -> None:
        assert self._process is not None
        with trio.move_on_after(_STOP_PATIENCE_S, shield=True):
            self._process.terminate()
            await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop()
