"""Our consumer as a member of groups in which other clients are members, too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from minikafka_client import TopicPartition
from minikafka_client.sync import Consumer
from tests.interop.members import CONSUMERS, SESSION_MS, Partitions, Position, Rebalanced

OURS = "minikafka"


class OurConsumer:
    """The blocking face, used from one thread as the others are."""

    is_hasty = True

    def __init__(
        self,
        rebalanced: Rebalanced,
        bootstrap: str,
        group: str,
        topics: list[str],
        assignor: Any,
        **settings: Any,
    ) -> None:
        self._rebalanced = rebalanced
        self._assigned: Partitions = set()
        self._open = ExitStack()
        self._consumer = self._open.enter_context(
            Consumer(
                bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                assignors=[assignor],
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=200,
                metadata_max_age_ms=500,
                on_partitions_assigned=self._on_assigned,
                on_partitions_revoked=self._on_revoked,
                **settings,
            )
        )
        self._consumer.subscribe(topics)

    def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = self._assigned | set(partitions)
        self._rebalanced(set(partitions))

    def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = self._assigned - set(partitions)
        self._rebalanced(set(partitions))

    def poll(self) -> list[tuple[Position, bytes | None]]:
        return [
            ((record.topic, record.partition, record.offset), record.value)
            for record in self._consumer.poll(1000, timeout_ms=100)
        ]

    def assigned(self) -> Partitions:
        return self._assigned

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._open.close()


CONSUMERS[OURS] = OurConsumer
