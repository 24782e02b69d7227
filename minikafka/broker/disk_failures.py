"""A leader whose disk failed: another in-sync replica takes over (Kafka's log directory failure).

The broker itself is well, so nobody fences it; it has to say which partitions it cannot lead. It
proposes that another member of the ISR leads and that it leaves the ISR, since its log may have
lost anything. Where nobody else is in sync the partition stays offline until its log is recovered.
A follower whose disk failed tells its leader with its next fetch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from ..metadata.image import PartitionImage, TopicImage
from ..protocol.errors import ErrorCode
from .isr_changes import ALTER_PARTITIONS, PROPOSALS_PER_REQUEST_MAX

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_ANSWER_SECONDS_MAX = 3.0


class DiskFailures:
    """Gives away what this broker leads and cannot serve."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

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

    def _failed(self) -> list[tuple[TopicImage, PartitionImage]]:
        """Partitions that this broker leads, as the metadata says, without being able to."""
        broker = self._broker
        found: list[tuple[TopicImage, PartitionImage]] = []
        for name, number in broker.replicas.unusable():
            topic = broker.image.topics.get(name)
            if topic is not None and number < len(topic.partitions):
                partition = topic.partitions[number]
                if partition.leader == broker.node_id:
                    found.append((topic, partition))
        return found

    def _proposal(self, topic: TopicImage, partition: PartitionImage) -> tuple[Any, ...] | None:
        """Another leader, and an ISR without this broker; None where nobody else is in sync."""
        broker = self._broker
        others = [
            one
            for one in partition.in_sync_replicas
            if one != broker.node_id and broker.image.is_active(one)
        ]
        if not others:
            return None
        here = broker.partitions.get((topic.name, partition.partition))
        machine = None if here is None else here.leader

        def position(broker_id: int) -> int:
            progress = None if machine is None else machine.progress_of(broker_id)
            return -1 if progress is None else progress.fetch_offset

        leader = max(others, key=position)
        brokers = broker.image.brokers
        members = [(one, brokers[one].broker_epoch) for one in others]
        logger.error(
            "the disk under %s-%d failed; broker %d shall lead it",
            *(topic.name, partition.partition, leader),
        )
        return (
            topic.topic_id,
            partition.partition,
            partition.leader_epoch,
            partition.partition_epoch,
            members,
            leader,
        )

    async def _send(self, proposals: list[tuple[Any, ...]]) -> None:
        broker = self._broker
        code, result = await broker.ask_controller(
            ALTER_PARTITIONS,
            (broker.node_id, broker.replicas.broker_epoch, proposals),
            timeout_s=_ANSWER_SECONDS_MAX,
        )
        refusals = [] if code != ErrorCode.NONE else [one[2] for one in result if one[2]]
        if code != ErrorCode.NONE or refusals:
            logger.warning(
                "the controller does not take over partitions whose disk failed yet: %s",
                ", ".join(ErrorCode(one).name for one in refusals) or code.name,
            )
