"""``with`` and ``async with`` for what starts and closes in plain calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Block(ABC):
    """Something that runs for a block. In trio, worker threads wait for its start and its end."""

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it serves."""

    @abstractmethod
    def close(self) -> None:
        """End it, whatever it takes."""

    def judge(self) -> None:  # noqa: B027 - most have nothing to complain of
        """Raise what the block has to answer for after its end, unless it failed anyway."""

    @abstractmethod
    def explain(self, error: BaseException) -> None:
        """Add to an error of the block what may have caused it."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Exception):
            self.explain(exc)
        self.close()
        if exc is None:
            self.judge()

    async def __aenter__(self) -> Self:
        import trio  # most tests use `with`, and start faster without it

        return await trio.to_thread.run_sync(self.__enter__)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        import trio

        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self.__exit__, exc_type, exc, traceback)
