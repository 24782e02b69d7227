"""Watches whole brokers while they run, for the invariants of `minikafka.lab.simulation.kit.truth`.

The brokers are unmodified but for their partitions, which report what they do. Internal topics are
left out: each replica compacts them by itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import trio

from minikafka.broker.broker import Broker
from minikafka.broker.control.metadata_store import MetadataStore
from minikafka.broker.replicas.partition import Partition, PartitionHost
from minikafka.broker.replicas.topic_state import TopicState
from minikafka.lab.simulation.kit.invariants import require
from minikafka.lab.simulation.kit.partition import ObservedPartition, Replicas, batches_of
from minikafka.lab.simulation.kit.truth import Decided, Truth
from minikafka.metadata.records import MetadataRecord, PartitionRecord, decode_decision
from minikafka.storage.log import Log
from minikafka.testing.simulation.network import Note

Key = tuple[bytes, int]


class Observer:
    """Everything that was seen of all brokers of a run."""

    def __init__(self, note: Note) -> None:
        self._replicas = Replicas(
            lambda text, *rest: note(text.format(*rest)), place_of=self._place_of
        )
        self._payloads: dict[int, bytes] = {}
        self._boots: Counter[int] = Counter()
        self._deposed_at: dict[tuple[Key, int], float] = {}

    @property
    def truth(self) -> Truth:
        return self._replicas.truth

    def _is_watched(self, topic_id: bytes) -> bool:
        topic = self.truth.image.topics_by_id.get(topic_id)
        return topic is not None and not topic.name.startswith("__")

    def _place_of(self, record: PartitionRecord) -> Key | None:
        watched = self._is_watched(record.topic_id)
        return (record.topic_id, record.partition) if watched else None

    def _key(self, topic: str, number: int) -> Key:
        return self.truth.image.topics[topic].topic_id, number

    @contextmanager
    def installed(self) -> Generator[None]:
        apply = MetadataStore.apply

        async def observed_apply(store: MetadataStore, index: int, payload: bytes) -> None:
            self._decided(index, payload)
            await apply(store, index, payload)

        def new_partition(host: PartitionHost, topic: TopicState, index: int, log: Log) -> Any:
            if not self._is_watched(topic.topic_id):
                return Partition(host, topic, index, log)
            key, boot = (topic.topic_id, index), self._boots[host.node_id]
            return ObservedPartition(self._replicas, key, boot, host, topic, index, log)

        with (
            patch.object(MetadataStore, "apply", observed_apply),
            patch("minikafka.broker.replicas.manager.Partition", new_partition),
        ):
            yield

    # --- brokers ---------------------------------------------------------------------------------

    def lost_power(self, node_id: int) -> None:
        self._replicas.lost_power(node_id)

    def opened(self, broker: Broker) -> None:
        """A process begins; it may know of decisions that no process has lived to apply."""
        self._boots[broker.node_id] += 1
        for index, payload in broker.quorum.stored().entries:
            self._decided(index, payload)
        self.truth.started(broker.node_id, broker.node.incarnation)

    def _decided(self, index: int, payload: bytes) -> None:
        known = self._payloads.get(index)
        if known is not None:
            require(known == payload, "one metadata log", f"nodes differ at index {index}")
        elif payload and index > max(self._payloads, default=-1):
            self._payloads[index] = payload
            records = tuple(decode_decision(payload))
            self._note_deposed(records)
            self.truth.replay(Decided(records, is_proposal=self._is_proposal(records)))

    def _note_deposed(self, records: tuple[MetadataRecord, ...]) -> None:
        for record in records:
            if isinstance(record, PartitionRecord):
                key = (record.topic_id, record.partition)
                before = self.truth.image.partition(*key)
                if before is not None and before.leader != record.leader:
                    self._deposed_at[key, before.leader] = trio.current_time()

    def _is_proposal(self, records: tuple[MetadataRecord, ...]) -> bool:
        """Only leaders ask for another ISR in the same leader epoch."""
        for record in records:
            if isinstance(record, PartitionRecord):
                before = self.truth.image.partition(record.topic_id, record.partition)
                if before is None or before.leader_epoch != record.leader_epoch:
                    return False
        return True

    # --- clients ---------------------------------------------------------------------------------

    def acknowledged(self, topic: str, number: int, base_offset: int, value: bytes) -> None:
        self.truth.acknowledged(self._key(topic, number), base_offset, value.decode())

    def read(self, topic: str, number: int, content: Any) -> None:
        self.truth.read(self._key(topic, number), batches_of(content))

    def taken(
        self, topic: str, number: int, node_id: int, asked_at: float, deposed_s_max: float
    ) -> None:
        """A node has taken a record with acks=1."""
        key = self._key(topic, number)
        partition = self.truth.image.partition(*key)
        deposed_at = self._deposed_at.get((key, node_id), -math.inf)
        require(
            (partition is not None and partition.leader == node_id)
            or asked_at <= deposed_at + deposed_s_max,
            "a deposed leader stops",
            f"node {node_id} takes records for {topic}-{number}, which it lost at {deposed_at:.3f}",
        )
