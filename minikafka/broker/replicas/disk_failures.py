"""A leader whose disk failed: another in-sync replica takes over (Kafka's log directory failure).

The broker itself is alive, so it is not fenced; it has to report which partitions it cannot lead.
It proposes that another member of the ISR leads and that it leaves the ISR itself, since its log
may have lost anything. If there is no other member the partition stays offline until its log is
recovered. A follower whose disk failed reports that to its leader with its next fetch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from ...metadata.image import TopicImage
from ...metadata.records import PartitionRecord
from ..quorum.change_error import ChangeError
from ..rpc import operations
from ..settings.effective import MetadataView
from ..settings.node import Node
from .index import PartitionIndex
from .isr_proposals import PROPOSALS_PER_REQUEST_MAX

if TYPE_CHECKING:
    from ..control.forwarder import Forwarder

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_ANSWER_SECONDS_MAX = 3.0


class DiskFailures:
    """Gives up leadership of what this broker cannot serve."""

    def __init__(
        self, node: Node, metadata: MetadataView, index: PartitionIndex, forwarder: Forwarder
    ) -> None:
        self._node = node
        self._metadata = metadata
        self._index = index
        self._forwarder = forwarder

    async def run(self) -> None:
        """Look for failed logs until cancelled."""
        while True:
            await trio.sleep(_LOOK_SECONDS)
            proposals = [
                proposal
                for topic, partition in self._failed()
                if (proposal := self._proposal(topic, partition)) is not None
            ]
            if proposals:
                await self._send(proposals[:PROPOSALS_PER_REQUEST_MAX])

    def _failed(self) -> list[tuple[TopicImage, PartitionRecord]]:
        """Unusable partitions that this broker leads according to the metadata."""
        found: list[tuple[TopicImage, PartitionRecord]] = []
        for name, number in self._index.unusable():
            topic = self._metadata.image.topics.get(name)
            if topic is not None and number < len(topic.partitions):
                partition = topic.partitions[number]
                if partition.leader == self._node.node_id:
                    found.append((topic, partition))
        return found

    def _proposal(
        self, topic: TopicImage, partition: PartitionRecord
    ) -> operations.AlterPartition | None:
        """Another leader, and an ISR without this broker; None if no other replica is in sync."""
        image, node_id = self._metadata.image, self._node.node_id
        others = [
            one for one in partition.in_sync_replicas if one != node_id and image.is_active(one)
        ]
        if not others:
            return None
        here = self._index.partitions.get((topic.name, partition.partition))
        machine = None if here is None else here.leader

        def position(broker_id: int) -> int:
            progress = None if machine is None else machine.progress_of(broker_id)
            return -1 if progress is None else progress.fetch_offset

        leader = max(others, key=position)
        brokers = image.brokers
        members = tuple(operations.InSyncReplica(one, brokers[one].broker_epoch) for one in others)
        logger.error(
            "the disk under %s-%d failed; proposing broker %d as its leader",
            *(topic.name, partition.partition, leader),
        )
        return operations.AlterPartition(
            topic.topic_id,
            partition.partition,
            partition.leader_epoch,
            partition.partition_epoch,
            members,
            leader,
        )

    async def _send(self, proposals: list[operations.AlterPartition]) -> None:
        request = operations.AlterPartitions(
            self._node.node_id, self._node.broker_epoch, tuple(proposals)
        )
        try:
            result = await self._forwarder.ask(
                operations.ALTER_PARTITIONS, request, timeout_s=_ANSWER_SECONDS_MAX
            )
            refusals = [one.error_code for one in result.partitions if one.error_code]
        except ChangeError as error:
            refusals = [error.error_code]
        if refusals:
            logger.warning(
                "the controller refuses other leaders for partitions whose disk failed: %s",
                ", ".join(one.name for one in refusals),
            )
