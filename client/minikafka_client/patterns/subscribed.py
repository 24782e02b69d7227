"""What all patterns share: a subscribed consumer of their own, and its group's commits."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import ClassVar, Final, Generic, Self, TypeVar, Unpack

import trio

from minikafka_client.consumer_options import ConsumerArguments, ConsumerConfig, ConsumerOptions
from minikafka_client.errors import CommitFailedError, KafkaError
from minikafka_client.options import ConnectionConfig, split_options
from minikafka_client.signatures import REQUIRED, ExcDetails, with_options
from minikafka_client.trio_api.consumer import Consumer
from minikafka_client.types import AutoOffsetResetName, Key, Offsets, TopicPartition, Value

logger = logging.getLogger(__name__)

Topics = Iterable[str] | re.Pattern[str]
_Init = TypeVar("_Init", bound=Callable[..., None])

LEAVE_PATIENCE_S: Final = 1.0
"""How long the last commit may take when an exception leaves the block."""


class PatternOptions(ConsumerOptions, ConsumerArguments[Key, Value], total=False):
    """Keyword arguments of a pattern that go to its consumer."""


def with_pattern_options(
    arguments: type = ConsumerArguments,
    *,
    auto_offset_reset: str = "earliest",
    isolation_level: str = "read_uncommitted",
) -> Callable[[_Init], _Init]:
    """Decorate a pattern's ``__init__``: its signature shows the consumer's options."""
    return with_options(
        ConsumerConfig,
        ConnectionConfig,
        arguments=arguments,
        without=["enable_auto_commit"],
        defaults={
            "group_id": REQUIRED,
            "auto_offset_reset": auto_offset_reset,
            "isolation_level": isolation_level,
        },
    )


class Subscribed(Generic[Key, Value]):
    """A consumer that is subscribed while the block is open.

    ``group_id`` is required; whether to auto-commit is the pattern's decision.

    Attributes:
        consumer: to pause partitions, to ask for lag and the like. Positions and commits belong
            to the pattern: do not seek.
    """

    consumer: Consumer[Key, Value]
    _commits_by_itself: ClassVar[bool] = False
    _reset: ClassVar[AutoOffsetResetName] = "earliest"

    @with_pattern_options()
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        **options: Unpack[PatternOptions[Key, Value]],
    ) -> None:
        self._check(topics, options)
        options.setdefault("auto_offset_reset", self._reset)
        options["enable_auto_commit"] = self._commits_by_itself
        self._topics = topics
        self._open = AsyncExitStack()
        self._has_failed = False
        self._on_revoked = options.get("on_partitions_revoked")
        self._on_assigned = options.get("on_partitions_assigned")
        self._on_lost = options.get("on_partitions_lost")
        options["on_partitions_revoked"] = self._revoked
        options["on_partitions_assigned"] = self._assigned
        options["on_partitions_lost"] = self._lost
        self.consumer = Consumer(bootstrap_servers, **options)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are being read."""
        return self.consumer.assignment

    def _check(self, topics: Topics, options: PatternOptions[Key, Value]) -> None:
        name = type(self).__name__
        if options.get("group_id") is None:
            raise ValueError(f"{name} keeps its place by committing; give it a group_id")
        if "enable_auto_commit" in options:
            raise ValueError(f"{name} decides when to commit; leave enable_auto_commit out")
        if isinstance(topics, str):
            raise TypeError(f"{name} takes topics, not one string: [{topics!r}]")
        # So that errors name the pattern.
        others = ConsumerArguments.__annotations__
        own = {each: given for each, given in options.items() if each not in others}
        split_options(own, ConsumerConfig, name)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.consumer)
            stack.push_async_exit(self._left)
            await self.consumer.subscribe(self._topics)
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *details: *ExcDetails) -> bool | None:
        return await self._open.__aexit__(*details)

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
        """Commit what is left to commit; ``_has_failed`` if an exception leaves the block."""

    async def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions are about to go to another member; nothing of them is in process."""
        if self._on_revoked is not None:
            await self._on_revoked(partitions)

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions were assigned to this member."""
        if self._on_assigned is not None:
            await self._on_assigned(partitions)

    async def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions may already belong to another member."""
        callback = self._on_lost or self._on_revoked
        if callback is not None:
            await callback(partitions)

    async def _commit(self, offsets: Offsets) -> bool:
        """Commit; False, with a warning, if this member has been removed from the group.

        Raises:
            KafkaError: the coordinator refused, or could not be reached.
        """
        try:
            await self.consumer.commit(offsets)
        except CommitFailedError as error:
            logger.warning("not committed: %s", error)
            return False
        return True
