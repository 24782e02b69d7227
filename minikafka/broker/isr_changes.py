"""What leaders here ask of the active controller: other in-sync replicas, or another leader.

Proposals of all partitions share one request at a time (AlterPartition, KIP-497). An answer is a
hint: what became of a proposal is in the metadata log, and `Replicas.apply` brings it. Only a
refusal is told to the partition, whose machine asks again when it wants to.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from ..protocol.errors import ErrorCode
from ..replication import ProposeIsr
from .partition import Partition

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger(__name__)

ALTER_PARTITIONS = "alter-partitions"
PROPOSALS_PER_REQUEST_MAX = 1000
_ANSWER_SECONDS_MAX = 3.0


class IsrChanges:
    """Sends proposals to the active controller."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._wanted: dict[Partition, ProposeIsr] = {}
        self._news = trio.Event()

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposal, in place of an older one of that partition."""
        self._wanted[partition] = proposal
        self._news.set()

    async def run(self) -> None:
        """Send what there is until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._wanted:
                batch = dict(list(self._wanted.items())[:PROPOSALS_PER_REQUEST_MAX])
                for partition in batch:
                    del self._wanted[partition]
                await self._send(batch)

    async def _send(self, batch: dict[Partition, ProposeIsr]) -> None:
        """Ask the controller once; whoever has no good answer is told so."""
        broker = self._broker
        fields = (
            broker.node_id,
            broker.replicas.broker_epoch,
            [
                (partition.topic.topic_id, partition.index, *proposal)
                for partition, proposal in batch.items()
            ],
        )
        code, result = await broker.ask_controller(
            ALTER_PARTITIONS, fields, timeout_s=_ANSWER_SECONDS_MAX
        )
        answered: dict[tuple[bytes, int], int] = {}
        if code == ErrorCode.NONE:
            answered = {(topic_id, number): refusal for topic_id, number, refusal, *_ in result}
        else:
            logger.info("no change of in-sync replicas: the controller says %s", code.name)
        for partition, proposal in batch.items():
            refusal = answered.get((partition.topic.topic_id, partition.index), code)
            if refusal != ErrorCode.NONE:
                if code == ErrorCode.NONE:
                    logger.info("%r: %s for %s", partition, ErrorCode(refusal).name, proposal)
                partition.isr_refused(proposal, ErrorCode(refusal))
