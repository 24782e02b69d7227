"""Where partitions begin and end, wherever their leaders are: a share group's lag needs that.

Each leader is asked once for all its partitions, over minikafka's own protocol; Kafka's group
coordinator sends ListOffsets requests for the same purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from ..control.metadata_store import MetadataStore
from ..replicas.index import PartitionIndex
from ..replicas.partition import PartitionError
from ..rpc import operations
from ..rpc.codec import Respond
from ..rpc.errors import RpcError
from ..rpc.operations import PARTITION_ENDS_MAX, PartitionEnds, PartitionPlace
from ..settings.node import Node

if TYPE_CHECKING:
    from ..rpc.peers import Peers

logger = logging.getLogger(__name__)

_ASK_SECONDS: Final = 5.0
_UNKNOWN: Final = PartitionEnds(-1, -1)


class PartitionEndsService:
    """Asks leaders, and answers for the partitions that this broker leads."""

    def __init__(
        self, node: Node, metadata: MetadataStore, index: PartitionIndex, peers: Peers | None
    ) -> None:
        self._node = node
        self._metadata = metadata
        self._index = index
        self._peers = peers

    async def find(self, places: Iterable[PartitionPlace]) -> dict[PartitionPlace, PartitionEnds]:
        """Where partitions begin and end; without those whose leaders do not answer."""
        by_leader: dict[int, list[PartitionPlace]] = {}
        for place in places:
            topic = self._metadata.image.topics_by_id.get(place.topic_id)
            if topic is not None and place.partition < len(topic.partitions):
                leader = topic.partitions[place.partition].leader
                by_leader.setdefault(leader, []).append(place)
        found: dict[PartitionPlace, PartitionEnds] = {}
        async with trio.open_nursery() as nursery:
            for leader, asked in by_leader.items():
                if leader == self._node.node_id:
                    found |= zip(asked, map(self._ends_here, asked), strict=True)
                elif self._peers is not None and leader in self._metadata.image.brokers:
                    nursery.start_soon(self._ask, self._peers, leader, asked, found)
        return {place: ends for place, ends in found.items() if ends != _UNKNOWN}

    @staticmethod
    async def _ask(
        peers: Peers,
        leader: int,
        places: Sequence[PartitionPlace],
        found: dict[PartitionPlace, PartitionEnds],
    ) -> None:
        for begin in range(0, len(places), PARTITION_ENDS_MAX):
            some = places[begin : begin + PARTITION_ENDS_MAX]
            try:
                reply = await peers.client(leader).call(
                    operations.PARTITION_ENDS,
                    operations.AskPartitionEnds(tuple(some)),
                    timeout_s=_ASK_SECONDS,
                )
            except RpcError as error:
                logger.info("node %d did not say where its partitions end: %s", leader, error)
                return
            found |= zip(some, reply.message.ends, strict=False)

    def _ends_here(self, place: PartitionPlace) -> PartitionEnds:
        topic = self._metadata.image.topics_by_id.get(place.topic_id)
        try:
            log = self._index.find_for_client(topic.name if topic else "", place.partition).log
        except PartitionError:
            return _UNKNOWN
        return PartitionEnds(log.log_start_offset, log.high_watermark)

    def serve(
        self,
        node_id: int,
        request: operations.AskPartitionEnds,
        attachments: Sequence[memoryview],
        respond: Respond[operations.PartitionEndsAnswer],
    ) -> None:
        """Answer a node that asks."""
        del node_id, attachments
        ends = tuple(self._ends_here(place) for place in request.partitions)
        respond(operations.PartitionEndsAnswer(ends), ())
