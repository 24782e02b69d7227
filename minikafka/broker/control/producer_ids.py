"""Producer ids: taken from the controller in blocks, handed out one by one."""

from __future__ import annotations

from ..rpc import operations
from ..settings.node import Node
from .forwarder import Forwarder
from .lifecycle import Lifecycle

_ANSWER_SECONDS_MAX = 10.0


class ProducerIds:
    """Hands out producer ids that no producer of this cluster has ever had."""

    def __init__(self, node: Node, lifecycle: Lifecycle, forwarder: Forwarder) -> None:
        self._node = node
        self._lifecycle = lifecycle
        self._forwarder = forwarder
        self._block = iter(range(0))

    async def next(self) -> int:
        """A new producer id.

        Raises:
            ChangeError: the block is used up and the controller grants no other.
        """
        producer_id = next(self._block, None)
        while producer_id is None:
            allocated = await self._forwarder.ask(
                operations.ALLOCATE_PRODUCER_IDS,
                operations.AllocateProducerIds(self._node.node_id, self._lifecycle.broker_epoch),
                timeout_s=_ANSWER_SECONDS_MAX,
            )
            self._block = iter(range(allocated.first, allocated.end))
            producer_id = next(self._block, None)
        return producer_id
