"""What a consumer can ask brokers about topics and offsets, apart from reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.topics import describe_topics
from minikafka_client.trio_face.network import Network
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    IsolationLevel,
    OffsetAndTimestamp,
    TopicPartition,
)


class Lookups:
    """The methods; `Consumer` inherits them.

    Args:
        network: whom to ask.
        isolation_level: what counts as the end of a partition.
    """

    def __init__(self, network: Network, isolation_level: IsolationLevel) -> None:
        self._network = network
        self._isolation_level = isolation_level

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The log start offsets.

        Raises:
            KafkaError: the only partition has none, or nobody could tell.
            SomeFailedError: some of several partitions have none.
        """
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last record that this isolation level sees.

        Raises:
            KafkaError: the only partition has none, or nobody could tell.
            SomeFailedError: some of several partitions have none.
        """
        return await self._offsets(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time; None where there is none.

        Raises:
            KafkaError: the only partition does not exist, or nobody could tell.
            SomeFailedError: some of several partitions do not exist.
        """
        found = await self._list_offsets(timestamps_ms)
        return {p: each if each.offset >= 0 else None for p, each in found.items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """The partition indexes of a topic.

        Raises:
            KafkaError: there is no such topic, or nobody could tell.
        """
        described = await self._network.run_plan(lambda cluster: describe_topics(cluster, [topic]))
        return [partition.partition for partition in described[topic].partitions]

    async def _offsets(
        self, partitions: Iterable[TopicPartition], spec: int
    ) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(partitions, spec))
        return {partition: each.offset for partition, each in found.items()}

    async def _list_offsets(
        self, specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self._network.run_plan(
            lambda cluster: list_offsets(cluster, specs, isolation_level=self._isolation_level)
        )
