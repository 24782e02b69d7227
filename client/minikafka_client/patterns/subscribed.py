"""What all patterns share: a consumer of their own, subscribed, and its group's commits."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Self

import trio

from minikafka_client.consumer_options import AutoOffsetResetName, ConsumerOptions
from minikafka_client.errors import CommitFailedError, KafkaError
from minikafka_client.trio_face.commits import Offsets
from minikafka_client.trio_face.consumer import Consumer
from minikafka_client.trio_face.reading import RebalanceCallback
from minikafka_client.types import Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

logger = logging.getLogger(__name__)

Topics = Iterable[str] | re.Pattern[str]

LEAVE_PATIENCE_S: Final = 1.0
"""How long the last commit may take when the block is left with an exception."""


def check_pattern(name: str, topics: Topics, options: ConsumerOptions) -> None:
    """Refuse what contradicts a delivery pattern.

    Raises:
        ValueError: an option is missing, or is the pattern's own business.
        TypeError: the topics are one string.
    """
    if options.get("group_id") is None:
        raise ValueError(f"{name} keeps its place by committing; give it a group_id")
    if "enable_auto_commit" in options:
        raise ValueError(f"{name} decides when to commit; leave enable_auto_commit out")
    if isinstance(topics, str):
        raise TypeError(f"{name} takes topics, not one string: [{topics!r}]")


class Subscribed(Generic[Key, Value]):
    """A consumer that is subscribed as long as the block is open.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        options: those of the consumer; ``group_id`` is needed, ``enable_auto_commit`` is the
            pattern's business.

    Attributes:
        consumer: to pause partitions, to ask for lag and the like. Positions and commits are the
            pattern's: do not seek.

    Raises:
        ValueError: an option is refused.
    """

    commits_by_itself: ClassVar[bool] = False
    reset: ClassVar[AutoOffsetResetName] = "earliest"

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        options: ConsumerOptions,
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
    ) -> None:
        check_pattern(type(self).__name__, topics, options)
        options.setdefault("auto_offset_reset", self.reset)
        options["enable_auto_commit"] = self.commits_by_itself
        self._topics = topics
        self._open = AsyncExitStack()
        self._has_failed = False
        self._on_revoked = on_partitions_revoked
        self._on_assigned = on_partitions_assigned
        self._on_lost = on_partitions_lost
        self.consumer: Consumer[Key, Value] = Consumer(
            bootstrap,
            on_partitions_revoked=self._revoked,
            on_partitions_assigned=self._assigned,
            on_partitions_lost=self._lost,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            **options,
        )

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.consumer)
            stack.push_async_exit(self._left)
            await self.consumer.subscribe(self._topics)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._open.__aexit__(exc_type, exc, traceback)

    async def _left(self, _type: object, exc: BaseException | None, _traceback: object) -> None:
        if exc is None:
            await self._leave()
            return
        self._has_failed = True
        with trio.move_on_after(LEAVE_PATIENCE_S, shield=True):
            try:
                await self._leave()
            except KafkaError as error:
                logger.warning("the last commit failed: %s", error)

    async def _leave(self) -> None:
        """The block ends, with an exception if ``_has_failed``: commit what is left to commit."""

    async def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions go to another member; nothing is in process now."""
        if self._on_revoked is not None:
            await self._on_revoked(partitions)

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions are ours now."""
        if self._on_assigned is not None:
            await self._on_assigned(partitions)

    async def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions may be another member's already."""
        callback = self._on_lost or self._on_revoked
        if callback is not None:
            await callback(partitions)

    async def _commit(self, offsets: Offsets) -> bool:
        """Commit; False (and a warning) when the group has moved on without this member.

        Raises:
            KafkaError: the coordinator could not be reached, or refused.
        """
        try:
            await self.consumer.commit(offsets)
        except CommitFailedError as error:
            logger.warning("not committed: %s", error)
            return False
        return True
