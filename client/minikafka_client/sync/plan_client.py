"""Runs plans on blocking sockets; it imports none, so it is quick to load."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Self, TypeVar, Unpack

from minikafka_client.core.cluster import Cluster, parse_bootstrap
from minikafka_client.options import ConnectionConfig, ConnectionOptions, connection_config
from minikafka_client.plans.plan import Plan
from minikafka_client.signatures import with_options
from minikafka_client.sync.network import BlockingNetwork

_Result = TypeVar("_Result")


class PlanClient:
    """Drives plans: ``with PlanClient("localhost:9092") as client: client.run_plan(...)``.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        connection: see `minikafka_client.options.ConnectionConfig`.
    """

    @with_options(ConnectionConfig)
    def __init__(
        self, bootstrap_servers: str | Sequence[str], **connection: Unpack[ConnectionOptions]
    ) -> None:
        config = connection_config(connection, type(self).__name__)
        self._network = BlockingNetwork(
            Cluster(parse_bootstrap(bootstrap_servers)), config, random.random
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; leaving the block does, too."""
        self._network.close()

    def run_plan(self, start: Callable[[Cluster], Plan[_Result]]) -> _Result:
        """Drive a plan to its end.

        Raises:
            KafkaError: what the plan raises.
        """
        return self._network.run_plan(start)
