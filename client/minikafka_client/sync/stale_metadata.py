"""Metadata that has to be asked for again, not more often than the retry back-off allows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from minikafka_client.core.backoff import Backoff
from minikafka_client.errors import KafkaError
from minikafka_client.plans.rounds import refresh_metadata
from minikafka_client.sync.network import BlockingNetwork


class StaleMetadata:
    """Collects topics and asks for them when it is time.

    Attributes:
        last_error: why the last attempt failed, None if it did not.
    """

    def __init__(self, network: BlockingNetwork, retry: Backoff) -> None:
        self._network = network
        self._retry = retry
        self._topics: set[str] = set()
        self._due_at = math.inf
        self._next_at = 0.0
        self._attempts = 0
        self.last_error: KafkaError | None = None

    def want(self, topics: Iterable[str]) -> None:
        """Ask for these topics as soon as it is time."""
        self._topics.update(topics)
        self._due_at = self._next_at

    @property
    def due_at(self) -> float | None:
        """When to call `refresh_if_due`; None while nothing is stale."""
        return None if self._due_at == math.inf else self._due_at

    def refresh_if_due(self) -> bool:
        """Ask, if it is time; returns whether there may be news."""
        if time.monotonic() < self._due_at:
            return False
        names = sorted(self._topics)
        self._due_at = math.inf
        before = self._network.cluster.updated_at
        try:
            self._network.run_plan(lambda _cluster: refresh_metadata(names))
            self.last_error = None
        except KafkaError as error:
            self.last_error = error
        now = time.monotonic()
        # A broker needs a moment to elect a leader: the pauses grow while they follow each other.
        self._attempts = 0 if now - before > 10.0 else self._attempts + 1
        self._next_at = now + self._retry.seconds(self._attempts)
        self._topics.clear()
        return True
