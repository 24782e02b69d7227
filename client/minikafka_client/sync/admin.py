"""The administrator's client for ordinary programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Self, TypeVar, Unpack

from minikafka_client.core.cluster import Cluster, parse_bootstrap
from minikafka_client.options import ConnectionConfig, ConnectionOptions
from minikafka_client.plans import (
    brokers,
    configs,
    group_offsets,
    groups,
    hanging,
    offsets,
    topics,
    transaction_admin,
    two_phase_commit,
)
from minikafka_client.plans.ask import Plan
from minikafka_client.sync.method import method
from minikafka_client.sync.network import BlockingNetwork

_Result = TypeVar("_Result")


class AdminClient:
    """Administers a cluster: ``with AdminClient("localhost:9092") as admin``.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        connection: see `minikafka_client.options.ConnectionConfig`.

    Every method raises `KafkaError`. What may succeed later is retried until ``api_timeout_ms``
    is over; an unknown topic is not.
    """

    def __init__(
        self, bootstrap: str | Sequence[str], **connection: Unpack[ConnectionOptions]
    ) -> None:
        config = ConnectionConfig(**connection)
        self._network = BlockingNetwork(Cluster(parse_bootstrap(bootstrap)), config, random.random)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; leaving the block does it, too."""
        self._network.close()

    def run_plan(self, start: Callable[[Cluster], Plan[_Result]]) -> _Result:
        """Drive a plan of your own to its end."""
        return self._network.run_plan(start)

    list_topics: Final = method(topics.list_topics)
    describe_topics: Final = method(topics.describe_topics)
    create_topics: Final = method(topics.create_topics)
    delete_topics: Final = method(topics.delete_topics)
    create_partitions: Final = method(topics.create_partitions)
    describe_configs: Final = method(configs.describe_configs)
    alter_configs: Final = method(configs.alter_configs)
    list_offsets: Final = method(offsets.list_offsets)
    delete_records: Final = method(offsets.delete_records)
    list_groups: Final = method(groups.list_groups)
    describe_groups: Final = method(groups.describe_groups)
    delete_groups: Final = method(groups.delete_groups)
    list_group_offsets: Final = method(group_offsets.list_group_offsets)
    alter_group_offsets: Final = method(group_offsets.alter_group_offsets)
    delete_group_offsets: Final = method(group_offsets.delete_group_offsets)
    describe_cluster: Final = method(brokers.describe_cluster)
    describe_log_dirs: Final = method(brokers.describe_log_dirs)
    list_transactions: Final = method(transaction_admin.list_transactions)
    describe_transactions: Final = method(transaction_admin.describe_transactions)
    fence_producers: Final = method(transaction_admin.fence_producers)
    describe_producers: Final = method(hanging.describe_producers)
    find_hanging_transactions: Final = method(hanging.find_hanging_transactions)
    abort_hanging_transaction: Final = method(hanging.abort_hanging_transaction)
    recover_transaction: Final = method(two_phase_commit.recover_transaction)
    end_prepared_transaction: Final = method(two_phase_commit.end_prepared_transaction)
    complete_transaction: Final = method(two_phase_commit.complete_transaction)
