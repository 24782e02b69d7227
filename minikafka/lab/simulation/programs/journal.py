"""What programs did, for the ledger and, if somebody listens, for the timeline."""

from __future__ import annotations

from typing import Any

from minikafka.lab.ledger import Fate, Ledger
from minikafka.lab.simulation.stage import Stage
from minikafka.lab.timeline import EventKind, LaneKind


class Journal:
    """See the module's text.

    Attributes:
        ledger: of the run.
        results: effects that cannot be undone, in their order.
    """

    def __init__(self, stage: Stage, ledger: Ledger) -> None:
        self.ledger = ledger
        self.results: list[str] = []
        self._stage = stage

    def settle(self) -> None:
        """In the end: records of transactions that turn out to be aborted are not stored."""
        ledger = self.ledger
        stored = set(ledger.log)
        for transaction in ledger.transactions:
            for value in transaction:
                if value not in stored and ledger.fates.get(value) is not Fate.TRUSTED:
                    ledger.fates[value] = Fate.REFUSED

    def lane(self, name: str, kind: LaneKind, title: str) -> None:
        """Somebody is there."""
        recorder = self._stage.recorder
        if recorder is not None:
            recorder.lane(name, kind, title, is_up=True)

    def event(
        self, lane: str, kind: EventKind, text: str, record: str | None = None, **state: Any
    ) -> None:
        """Something happens to somebody; `state` is what changes for the lane."""
        recorder = self._stage.recorder
        if recorder is not None:
            recorder.add(lane, kind, f"{lane} {text}", record, **state)
