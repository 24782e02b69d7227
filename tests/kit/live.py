"""Brokers and clusters in processes of their own whose logs are judged, too."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.testing import Broker, Cluster, Setting

BUG_MARKS = ("after a bug", "Traceback")
"""What a broker's log never has, whatever its clients and the other brokers do."""
_SHOWN_CHARACTERS = 20_000


class JudgedBroker(Broker):
    """A broker that must stop with success and log no bug; exactly what ``minikafka serve`` starts.

    Args:
        directory: gets the log and the data.
        settings: by Kafka's names.
        prefix: words before the command.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Setting] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        super().__init__(settings, directory=directory, prefix=prefix, control=False)
        self._judged_characters = 0

    def check_log(self) -> None:
        """Fail if the log shows a bug that it did not show at the last check."""
        everything = self.log()
        fresh = everything[self._judged_characters :]
        self._judged_characters = len(everything)
        check_log(fresh, "the broker")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop, which must succeed."""
        code = super().stop(number)
        self.check_log()
        assert code == 0, f"exit code {code} on {signal.Signals(number).name}:\n{self._log_end()}"
        return code

    def _log_end(self) -> str:
        return self.log()[-_SHOWN_CHARACTERS:]


def check_log(log: str, name: str) -> None:
    """Fail if a log shows a bug."""
    found = [mark for mark in BUG_MARKS if mark in log]
    if found:
        at = min(log.index(mark) for mark in found)
        shown = log[max(0, at - _SHOWN_CHARACTERS) : at + _SHOWN_CHARACTERS]
        raise AssertionError(f"the log of {name} shows {found}:\n{shown}")


def check_logs(cluster: Cluster) -> None:
    """Fail if a node's log shows a bug."""
    for node_id in cluster.nodes:
        check_log(cluster.log(node_id), f"node {node_id}")
