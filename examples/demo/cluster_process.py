"""Three brokers, each a process of its own, to be killed: `minikafka cluster up`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trio

from .server_process import MINIKAFKA, start_until_ready, stop

_READY_PATIENCE_S: Final = 60
_STOP_PATIENCE_S: Final = 20
_COMMAND: Final = (*MINIKAFKA, "cluster")


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
        self._process, self.addresses = await start_until_ready(
            [*_COMMAND, *words, *settings],
            self._log_path,
            patience_s=_READY_PATIENCE_S,
            stop_patience_s=_STOP_PATIENCE_S,
        )
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

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        await stop(self._process, _STOP_PATIENCE_S)
