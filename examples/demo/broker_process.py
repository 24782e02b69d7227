"""A broker in a process of its own, to be killed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trio

from .server_process import MINIKAFKA, start_until_ready, stop

_READY_PATIENCE_S: Final = 30
_STOP_PATIENCE_S: Final = 10


class BrokerProcess(AbstractAsyncContextManager["BrokerProcess"]):
    """``async with BrokerProcess(directory) as broker``: it serves at `broker.address`.

    Args:
        directory: data directory and, in a file beside it, the broker's log.
        settings: Kafka's names and values.

    Attributes:
        address: ``HOST:PORT``; the port stays the same over a restart.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.address = "127.0.0.1:0"
        # As in Kafka, a new group would wait three seconds for more members.
        self._settings = {"group.initial.rebalance.delay.ms": "0", **(settings or {})}
        self._data_dir = directory / "data"
        self._log_path = directory / "broker.log"
        self._process: trio.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            RuntimeError: it did not; the message has the end of its log.
        """
        options = ["--data-dir", str(self._data_dir), "--listen", self.address]
        options += [word for each in self._settings.items() for word in ("--set", "=".join(each))]
        self._process, self.address = await start_until_ready(
            [*MINIKAFKA, "serve", *options],
            self._log_path,
            patience_s=_READY_PATIENCE_S,
            stop_patience_s=_STOP_PATIENCE_S,
        )

    async def kill(self) -> None:
        """SIGKILL: no goodbye, no flush."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        await stop(self._process, _STOP_PATIENCE_S)
