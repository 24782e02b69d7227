"""A consumer's commits: in order, by request and by timer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.membership import NO_MEMBER, Member
from minikafka_client.errors import CommitFailedError, FencedError, KafkaError
from minikafka_client.log_events import LogEvent
from minikafka_client.plans.group_offsets import Committer, commit_offsets
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.group_loop import GroupLoop
from minikafka_client.trio_api.network import Network
from minikafka_client.types import GroupMetadata, OffsetAndMetadata, Offsets, TopicPartition

logger = logging.getLogger(__name__)

_ANSWERS_MAX: Final = 3
"""Heartbeats that a commit under an old epoch waits for: one may be older than the commit."""

CommitCallback = Callable[[Offsets, KafkaError | None], None]


class Commits:
    """Commits one after the other, in the order in which they were asked for.

    ``is_subscribed`` returns whether commits need a generation (partitions assigned by hand have
    none). ``on_refused`` is called with the error code with which the coordinator refused the
    member.
    """

    def __init__(
        self,
        group_id: str,
        network: Network,
        background: Background,
        group: GroupLoop,
        *,
        is_subscribed: Callable[[], bool],
        on_refused: Callable[[int], None],
    ) -> None:
        self.group_id = group_id
        self._network = network
        self._background = background
        self._group = group
        self._is_subscribed = is_subscribed
        self._on_refused = on_refused
        self._last_turn = trio.Event()
        self._last_turn.set()
        self._committed: dict[TopicPartition, int] = {}

    def forget(self, partitions: set[TopicPartition]) -> None:
        """Another member owns these now, so what is committed for them is no longer known."""
        for partition in partitions:
            self._committed.pop(partition, None)

    def news(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> Offsets:
        return {
            partition: commit
            for partition, commit in offsets.items()
            if self._committed.get(partition) != commit.offset
        }

    async def commit(self, offsets: Offsets) -> None:
        """Commit and wait for the answer; raises as `commit_offsets`."""
        await trio.lowlevel.checkpoint()
        if offsets:
            await self._commit(offsets, self._committer(), *self._take_turn())

    def _take_turn(self) -> tuple[trio.Event, trio.Event]:
        """Queue a commit; returns the event to wait for, and the one the next commit waits for."""
        before, self._last_turn = self._last_turn, trio.Event()
        return before, self._last_turn

    async def _commit(
        self,
        offsets: Offsets,
        committer: Committer | CommitFailedError,
        before: trio.Event,
        done: trio.Event,
    ) -> None:
        try:
            await before.wait()
            if isinstance(committer, CommitFailedError):
                raise committer
            await self._commit_as(committer, offsets)
        finally:
            if before.is_set():
                done.set()
            else:  # cancelled in line: the next one waits for those before this one
                self._background.start_soon(_pass_on, before, done)
        for partition, commit in offsets.items():
            self._committed[partition] = commit if isinstance(commit, int) else commit.offset

    async def _commit_as(self, committer: Committer, offsets: Offsets) -> None:
        while True:
            plan = partial(commit_offsets, committer=committer, offsets=offsets)
            try:
                await self._network.run_plan(plan)
            except (CommitFailedError, FencedError) as error:
                if error.code is not None and self._is_current(committer):
                    self._on_refused(error.code)
                if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
                    raise
                renewed = await self._renewed(committer, offsets)
                if renewed is None:
                    raise
                committer = renewed
            else:
                return

    async def _renewed(self, committer: Committer, offsets: Offsets) -> Committer | None:
        """The same member in its next epoch, if it still owns what it commits.

        A partition that it has released may have a new owner, whose commits must not be undone.
        """
        member = self._member
        with trio.move_on_after(self._network.config.default_api_timeout_ms / 1000):
            for _ in range(_ANSWERS_MAX):
                if member.generation_id < 0 or not member.owned >= offsets.keys():
                    return None
                if not self._is_current(committer):
                    return committer._replace(
                        generation_id=member.generation_id, coordinator=member.coordinator
                    )
                await self._group.next_answer()
        return None

    @property
    def _member(self) -> Member:
        return self._group.member

    def _is_current(self, committer: Committer) -> bool:
        now = (self._member.member_id, self._member.generation_id)
        return (committer.member_id, committer.generation_id) == now

    def _committer(self) -> Committer:
        member = self._member
        if not self._is_subscribed():
            return Committer(self.group_id)
        if member.member_id == NO_MEMBER or member.generation_id < 0:
            raise CommitFailedError(
                f"this consumer is not a member of group {self.group_id!r} now; poll, so "
                f"that it joins again"
            )
        return Committer(
            self.group_id,
            member.member_id,
            member.generation_id,
            member.group_instance_id,
            member.coordinator,
            member.uses_member_epochs,
        )

    def group_metadata(self) -> GroupMetadata:
        """The identity that commits now; raises `CommitFailedError` if it is no member now."""
        committer = self._committer()
        return GroupMetadata(
            committer.group_id,
            committer.generation_id,
            committer.member_id,
            committer.group_instance_id,
        )

    def commit_nowait(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Start a commit; ``callback`` is called with the result."""
        try:
            committer: Committer | CommitFailedError = self._committer()
        except CommitFailedError as error:
            committer = error
        # In line now: tasks that start soon do not start in any order.
        turn = self._take_turn()
        self._background.start_soon(self._commit_and_tell, offsets, committer, callback, *turn)

    async def _commit_and_tell(
        self,
        offsets: Offsets,
        committer: Committer | CommitFailedError,
        callback: CommitCallback | None,
        before: trio.Event,
        done: trio.Event,
    ) -> None:
        error: KafkaError | None = None
        try:
            await self._commit(offsets, committer, before, done)
        except KafkaError as failure:
            error = failure
            if callback is None:
                self._log_failure("commit", failure)
        if callback is not None:
            callback(offsets, error)

    async def commit_quietly(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit those of these offsets that are new; a failure is only logged."""
        try:
            await self.commit(self.news(offsets))
        except KafkaError as error:
            self._log_failure("auto-commit", error)

    def _log_failure(self, what: str, error: KafkaError) -> None:
        logger.warning(
            "%s failed: %s",
            what,
            error,
            extra=LogEvent.COMMIT_FAILED.about(group_id=self.group_id, error=str(error)),
        )


async def _pass_on(before: trio.Event, done: trio.Event) -> None:
    await before.wait()
    done.set()
