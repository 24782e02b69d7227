"""The shell around the group coordinator.

There is one `GroupShard` for each partition of ``__consumer_offsets`` that this broker leads, run
as `shard_runtime` says: nobody is told an offset that could still be lost, so committed offsets
never go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from ..coordinator.group import Ask, GroupConfig, Now
from ..protocol.errors import ErrorCode
from ..protocol.records import BatchHeader, Record
from .internal_topics import InternalTopic
from .partition import Partition, PartitionError
from .shard_runtime import PendingReply, ShardKind, ShardRuntime

if TYPE_CHECKING:
    from ..coordinator.group import GroupRequest, GroupResponse, GroupShard
    from ..coordinator.group.pending_offsets import EndedOffsets
    from .broker import Broker
    from .config import BrokerConfig
    from .connection import RequestContext

OFFSETS_TOPIC = "__consumer_offsets"


def offsets_topic_settings(config: BrokerConfig) -> dict[str, str]:
    """Topic settings of ``__consumer_offsets``."""
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
        "compression.type": "producer",
    }


class GroupService:
    """All group shards of this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        self._config = GroupConfig(
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_max_size=config.group_max_size,
            offset_metadata_size_bytes_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )
        self.runtime: ShardRuntime[GroupShard] = ShardRuntime(
            broker,
            InternalTopic(
                OFFSETS_TOPIC,
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                offsets_topic_settings(config),
            ),
            ShardKind(
                new=self._new_shard,
                loaded=_loaded,
                replay=_replay,
                replay_marker=_replay_marker,
                carry_out=_wants_nothing_else,
            ),
        )

    def _new_shard(self) -> GroupShard:
        from ..coordinator.group import GroupShard

        return GroupShard(self._config, new_id=self._broker.random_uuid)

    async def start(self, nursery: trio.Nursery) -> None:
        """Begin to load the shards that this broker leads, and to watch the time."""
        await self.runtime.start(nursery)

    async def ensure_topic(self) -> None:
        """Create ``__consumer_offsets`` if it is not there.

        Raises:
            PartitionError: it cannot be created.
            ChangeError: there is no controller, or it does not answer.
        """
        await self.runtime.ensure_topic()

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition of ``__consumer_offsets`` now: load its groups."""
        self.runtime.lead(partition)

    def resign(self, number: int) -> None:
        """Another broker leads, or nobody: NOT_COORDINATOR for all who wait."""
        self.runtime.resign(number)

    def partition_of(self, group_id: str) -> int:
        """The partition that keeps a group.

        Raises:
            PartitionError: NOT_COORDINATOR, there is no such topic yet.
        """
        return self.runtime.partition_of(group_id)

    def shard(self, group_id: str) -> GroupShard:
        """The shard that keeps a group.

        Raises:
            PartitionError: it is being loaded or is not here (ask for the coordinator again).
        """
        _, shard = self.runtime.shard_of(group_id)
        if shard.error is not ErrorCode.NONE:
            raise PartitionError(shard.error)
        return shard

    def surely_current_shard(self, group_id: str) -> GroupShard:
        """The shard that keeps a group, if no other broker can keep it meanwhile.

        A consumer that asks for stable offsets goes on from them, and what it writes in its next
        transaction must not be there already. A broker that was cut off from the others may not
        know that it coordinates nothing any more, and does not know the last commits.

        Raises:
            PartitionError: as `shard`; COORDINATOR_LOAD_IN_PROGRESS, it cannot be sure and may be
                soon; NOT_COORDINATOR, it cannot for long. All clients ask again after the first;
                after the second librdkafka never asks for the offsets of its assignment again.
        """
        shard = self.shard(group_id)
        if not self.runtime.is_surely_current(self.runtime.partition_of(group_id)):
            is_long = self._broker.lifecycle.is_without_lease_for_long
            code = ErrorCode.NOT_COORDINATOR if is_long else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            raise PartitionError(code)
        return shard

    def shards(self) -> list[GroupShard]:
        """Every shard that is loaded."""
        return self.runtime.loaded_shards()

    @property
    def is_loading(self) -> bool:
        """True while some shard is not loaded yet."""
        return self.runtime.is_loading

    async def ask(
        self, group_id: str, request: GroupRequest, context: RequestContext
    ) -> GroupResponse:
        """Ask a group's shard, and wait for its reply as long as it takes.

        A shard that is being loaded says so itself (and lets heartbeats pass, as in Kafka).

        Raises:
            PartitionError: the shard is not here.
        """
        number, shard = self.runtime.shard_of(group_id)
        pending = PendingReply()
        ask = Ask(
            request, context.api_version, context.client_id or "", context.client_host, pending
        )
        self.runtime.carry_out(number, [*shard.handle(ask, self.runtime.now())])
        response: GroupResponse = await pending.wait()
        return response

    def topic_deleted(self, topic: str) -> None:
        """Forget the offsets of a topic that is gone."""
        for number, shard in list(self.runtime.shards.items()):
            if shard.error is ErrorCode.NONE:
                effects = shard.on_topics_deleted([topic], self.runtime.now())
                self.runtime.carry_out(number, [*effects])

    # --- transactions --------------------------------------------------------------------------

    def marker_appended(self, number: int, producer_id: int) -> EndedOffsets | None:
        """A transaction's marker was appended to a partition of ``__consumer_offsets``.

        Returns:
            What to say when it is committed; None where nobody has to know, or a shard that is
            being loaded will come across the marker.
        """
        shard = self.runtime.shards.get(number)
        if shard is None or self.runtime.is_replaying(number):
            return None
        return shard.marker_appended(producer_id)

    def marker_committed(self, number: int, ended: EndedOffsets, *, commits: bool) -> None:
        """The high watermark has passed that marker."""
        shard = self.runtime.shards.get(number)
        if shard is not None:
            shard.marker_committed(ended, commits=commits)


def _loaded(shard: GroupShard, leader_epoch: int, now: Now) -> list[Any]:
    del leader_epoch
    return [*shard.loaded(now)]


def _replay(shard: GroupShard, header: BatchHeader, record: Record) -> None:
    assert record.key is not None
    producer_id = header.producer_id if header.is_transactional else -1
    shard.replay(record.key, record.value, producer_id)


def _replay_marker(shard: GroupShard, producer_id: int, commits: bool) -> None:
    shard.replay_marker(producer_id, commits=commits)


def _wants_nothing_else(number: int, effect: Any) -> None:
    raise TypeError(f"the group shard of partition {number} wants {effect!r}")
