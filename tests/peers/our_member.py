"""Our consumer as a member of groups in which other clients are members, too."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from minikafka_client import sync
from tests.interop.members import CONSUMERS, SESSION_MS, Consumer, Membership, Position, Rebalanced

OURS = "minikafka"


class OurConsumer(Consumer):
    """The blocking API, used from one thread as the others are."""

    def __init__(self, rebalanced: Rebalanced, where: Membership, **settings: Any) -> None:
        assignor: Any = where.assignor
        self._open = ExitStack()
        consumer = self._open.enter_context(
            sync.Consumer(
                where.bootstrap,
                group_id=where.group,
                auto_offset_reset="earliest",
                partition_assignment_strategy=[assignor],
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=200,
                metadata_max_age_ms=500,
                on_partitions_assigned=self.on_assigned,
                on_partitions_revoked=self.on_revoked,
                **settings,
            )
        )
        super().__init__(rebalanced, consumer)
        consumer.subscribe(where.topics)

    def poll(self) -> list[tuple[Position, bytes | None]]:
        return [
            ((record.topic, record.partition, record.offset), record.value)
            for record in self._consumer.poll(1000, timeout_ms=100)
        ]

    def close(self) -> None:
        self._open.close()


CONSUMERS[OURS] = OurConsumer
