"""What leaders here ask of the active controller: another ISR, or another leader.

Proposals of all partitions share one request at a time (AlterPartition, KIP-497). An answer is a
hint: the outcome of a proposal is in the metadata log, which `ReplicaManager.apply` follows. Only a
refusal goes back to the partition, whose machine decides when to ask again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from ...protocol.errors import ErrorCode
from ...replication import ProposeIsr
from ..quorum.change_error import ChangeError
from ..rpc import operations
from ..settings.node import Node
from .partition import Partition

if TYPE_CHECKING:
    from ..control.forwarder import Forwarder

logger = logging.getLogger(__name__)

PROPOSALS_PER_REQUEST_MAX = 1000
_ANSWER_SECONDS_MAX = 3.0


class IsrProposals:
    """Sends proposals to the active controller."""

    def __init__(self, node: Node, forwarder: Forwarder) -> None:
        self._node = node
        self._forwarder = forwarder
        self._wanted: dict[Partition, ProposeIsr] = {}
        self._proposed = trio.Event()

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposal, in place of an older one of that partition."""
        self._wanted[partition] = proposal
        self._proposed.set()

    async def run(self) -> None:
        while True:
            await self._proposed.wait()
            self._proposed = trio.Event()
            while self._wanted:
                batch = dict(list(self._wanted.items())[:PROPOSALS_PER_REQUEST_MAX])
                for partition in batch:
                    del self._wanted[partition]
                await self._send(batch)

    async def _send(self, batch: dict[Partition, ProposeIsr]) -> None:
        """Ask the controller once, and pass refusals on."""
        request = operations.AlterPartitions(
            self._node.node_id,
            self._node.broker_epoch,
            tuple(_on_the_wire(partition, proposal) for partition, proposal in batch.items()),
        )
        try:
            result = await self._forwarder.ask(
                operations.ALTER_PARTITIONS, request, timeout_s=_ANSWER_SECONDS_MAX
            )
        except ChangeError as error:
            code = error.error_code
            logger.info("in-sync replicas are not changed: the controller answers %s", code.name)
            for partition, proposal in batch.items():
                partition.isr_refused(proposal, code)
            return
        answered = {(one.topic_id, one.partition): one.error_code for one in result.partitions}
        for partition, proposal in batch.items():
            code = answered.get((partition.topic.topic_id, partition.index), ErrorCode.NONE)
            if code is not ErrorCode.NONE:
                logger.info("%r: %s for %s", partition, code.name, proposal)
                partition.isr_refused(proposal, code)


def _on_the_wire(partition: Partition, proposal: ProposeIsr) -> operations.AlterPartition:
    return operations.AlterPartition(
        partition.topic.topic_id,
        partition.index,
        proposal.leader_epoch,
        proposal.partition_epoch,
        tuple(operations.InSyncReplica(*one) for one in proposal.isr),
        proposal.leader,
    )
