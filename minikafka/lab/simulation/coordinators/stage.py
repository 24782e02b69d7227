"""A simulated cluster with coordinators."""

from __future__ import annotations

from itertools import count

from minikafka.lab.matrix import TopicMode
from minikafka.lab.simulation.coordinators.node import HostingNode, Layout
from minikafka.lab.simulation.stage import Stage

FIRST_PRODUCER_ID = 1000


class HostingStage(Stage):
    """See the module's text.

    Attributes:
        layout: which partition is what.
    """

    def __init__(self, topic: TopicMode, seed: int, layout: Layout) -> None:
        super().__init__(topic, seed, partition_count=layout.count, node_class=HostingNode)
        self.layout = layout
        self._producer_ids = count(FIRST_PRODUCER_ID)
        for node in self.nodes.values():
            assert isinstance(node, HostingNode)
            node.layout = layout
            node.new_producer_id = self.new_producer_id

    def new_producer_id(self) -> int:
        """One that nobody has."""
        return next(self._producer_ids)
