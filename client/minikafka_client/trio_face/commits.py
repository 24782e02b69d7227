"""A consumer's commits: in order, by request and by the clock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import trio

from minikafka_client.core.group_member import NO_MEMBER, GroupMember
from minikafka_client.errors import CommitFailedError, FencedError, KafkaError
from minikafka_client.log_events import LogEvent
from minikafka_client.plans.commit import Committer, commit_offsets
from minikafka_client.trio_face.background import Background
from minikafka_client.trio_face.network import Network
from minikafka_client.types import GroupMetadata, OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
CommitCallback = Callable[[Offsets, KafkaError | None], None]


class Commits:
    """Commits one after the other, in the order in which they were asked for.

    Args:
        group_id: whose offsets.
        network: where the coordinator is.
        background: where commits that nobody waits for run.
        member: the membership; its identity is that of the commits while it has a generation.
        is_subscribed: whether commits need a generation (partitions that were assigned by hand
            belong to nobody's).
        on_refused: told the error code with which the coordinator refused the member.
    """

    def __init__(
        self,
        group_id: str,
        network: Network,
        background: Background,
        member: GroupMember,
        *,
        is_subscribed: Callable[[], bool],
        on_refused: Callable[[int], None],
    ) -> None:
        self.group_id = group_id
        self._network = network
        self._background = background
        self._member = member
        self._is_subscribed = is_subscribed
        self._on_refused = on_refused
        self._last_turn = trio.Event()
        self._last_turn.set()
        self._committed: dict[TopicPartition, int] = {}

    def forget(self, partitions: set[TopicPartition]) -> None:
        """These are somebody else's now: what they have committed is not known here."""
        for partition in partitions:
            self._committed.pop(partition, None)

    def news(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> Offsets:
        """The offsets among these that were not committed yet."""
        return {
            partition: commit
            for partition, commit in offsets.items()
            if self._committed.get(partition) != commit.offset
        }

    async def commit(self, offsets: Offsets) -> None:
        """Commit and wait for the answer.

        Raises:
            CommitFailedError: the group moved on without this member.
            FencedError: another member has the same ``group_instance_id``.
            KafkaError: the coordinator could not be reached, or refused some partitions.
        """
        await trio.lowlevel.checkpoint()
        if offsets:
            await self._commit(offsets, self._committer(), *self._take_turn())

    def _take_turn(self) -> tuple[trio.Event, trio.Event]:
        """Get in line; returns what to wait for, and what the next one waits for."""
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
            await self._network.run_plan(
                lambda cluster: commit_offsets(cluster, committer, offsets)
            )
        except (CommitFailedError, FencedError) as error:
            if (
                isinstance(committer, Committer)
                and error.code is not None
                and self._is_current(committer)
            ):
                self._on_refused(error.code)
            raise
        finally:
            if before.is_set():
                done.set()
            else:  # cancelled in line: the next one waits for those before this one
                self._background.start_soon(_pass_on, before, done)
        for partition, commit in offsets.items():
            self._committed[partition] = commit if isinstance(commit, int) else commit.offset

    def _is_current(self, committer: Committer) -> bool:
        """Whether what is said of a committer is true of this member as it is now."""
        now = (self._member.member_id, self._member.generation_id)
        return (committer.member_id, committer.generation_id) == now

    def _committer(self) -> Committer:
        member = self._member
        if not self._is_subscribed():
            return Committer(self.group_id)
        if member.member_id == NO_MEMBER or member.generation_id < 0:
            raise CommitFailedError(
                f"this consumer is no member of group {self.group_id!r} now; ask for records, so "
                f"that it joins again"
            )
        return Committer(
            self.group_id,
            member.member_id,
            member.generation_id,
            member.group_instance_id,
            member.coordinator,
        )

    def group_metadata(self) -> GroupMetadata:
        """Who commits now.

        Raises:
            CommitFailedError: the consumer is subscribed, and no member of the group now.
        """
        committer = self._committer()
        return GroupMetadata(
            committer.group_id,
            committer.generation_id,
            committer.member_id,
            committer.group_instance_id,
        )

    def commit_nowait(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Start a commit; ``callback`` hears how it ended."""
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
        """Commit what is new among these; a failure is only logged."""
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
