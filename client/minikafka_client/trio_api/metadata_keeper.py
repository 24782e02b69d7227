"""Keeps the metadata of the topics in use fresh, in the background."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable

import trio

from minikafka_client.core.backoff import Backoff
from minikafka_client.errors import ClosedError, KafkaError
from minikafka_client.log_events import LogEvent
from minikafka_client.plans.rounds import refresh_metadata, refresh_metadata_by_id
from minikafka_client.trio_api.network import Network

logger = logging.getLogger(__name__)


class MetadataKeeper:
    """Asks for metadata when it is wanted, and when it is older than ``metadata_max_age_ms``.

    ``on_change`` is called after each attempt.

    Attributes:
        topics: those that are asked for, by name.
        topic_ids: those whose names are not known yet; a topic moves over when its name is.
        wants_all_topics: ask for all topics instead.
        allow_auto_topic_creation: asking may create topics, if the broker is set to.
    """

    def __init__(
        self,
        network: Network,
        dice: Callable[[], float],
        *,
        allow_auto_topic_creation: bool,
        on_change: Callable[[], None],
    ) -> None:
        self.topics: set[str] = set()
        self.topic_ids: set[bytes] = set()
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.wants_all_topics = False
        self.last_error: KafkaError | None = None
        self._network = network
        self._on_change = on_change
        config = network.config
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, dice)
        self._wanted = trio.Event()
        self._tried = trio.Event()

    def want(self, topics: Iterable[str] = (), topic_ids: Iterable[bytes] = ()) -> None:
        self.topics.update(topics)
        self.topic_ids.update(topic_ids)
        self._wanted.set()

    async def next_try(self) -> None:
        """Wait until the next attempt has succeeded or failed (see ``last_error``)."""
        await self._tried.wait()

    async def run(self) -> None:
        failures = 0
        max_age_s = self._network.config.metadata_max_age_ms / 1000
        while True:
            expires_at = self._network.cluster.updated_at + max_age_s
            uses = bool(self.topics or self.topic_ids) or self.wants_all_topics
            with trio.move_on_at(expires_at if uses else math.inf):
                await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                self.last_error = await self._ask()
            except ClosedError:
                return
            failures = 0 if self.last_error is None else failures + 1
            tried, self._tried = self._tried, trio.Event()
            tried.set()
            self._on_change()
            if self.last_error is not None:
                logger.warning(
                    "cannot get metadata: %s",
                    self.last_error,
                    extra=LogEvent.METADATA_FAILED.about(error=str(self.last_error)),
                )
            # A caller that finds no leader asks again immediately; electing one takes a moment.
            await trio.sleep(self._backoff.seconds(max(0, failures - 1)))

    async def _ask(self) -> KafkaError | None:
        names = None if self.wants_all_topics else sorted(self.topics)
        topic_ids, self.topic_ids = self.topic_ids, set()
        try:
            if names != [] or not topic_ids:
                await self._network.run_plan(
                    lambda _cluster: refresh_metadata(
                        names, allow_auto_topic_creation=self.allow_auto_topic_creation
                    )
                )
            known = self._network.cluster.names_by_id
            if topic_ids - known.keys():
                await self._network.run_plan(
                    lambda _cluster: refresh_metadata_by_id(topic_ids - known.keys())
                )
            self.topics.update(known[each] for each in topic_ids & known.keys())
        except ClosedError:
            raise
        except KafkaError as error:
            return error
        return None
