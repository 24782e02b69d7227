"""The live broker as these tests want it: quick with groups, and judged by its log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.live_broker import LiveBroker

BUG_MARKS = ("after a bug", "Traceback")
"""What a broker's log never says, whatever its clients do."""


class InteropBroker(LiveBroker):
    """A broker that waits for nobody when a group begins.

    Args:
        directory: gets the log and the data.
        settings: Kafka's names and values.
        options: further words of the command line.
        launcher: words before the command.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        options: Sequence[str] = (),
        launcher: Sequence[str] = (),
    ) -> None:
        quick = {"group.initial.rebalance.delay.ms": "0"}
        super().__init__(directory, {**quick, **(settings or {})}, options, launcher)
        self._judged = 0

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The address in two parts."""
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    def check_log(self) -> None:
        """Fail if the log shows a bug that it did not show at the last check."""
        everything = self.log
        fresh, self._judged = everything[self._judged :], len(everything)
        found = [mark for mark in BUG_MARKS if mark in fresh]
        assert not found, f"the broker's log shows {found}:\n{fresh[-20_000:]}"

    def stop(self, *arguments: int) -> int:
        """Ask it to stop, which it must do with success; see `LiveBroker.stop`."""
        code = super().stop(*arguments)
        self.check_log()
        assert code == 0, f"exit code {code} on a signal to stop:\n{self.log[-20_000:]}"
        return code
