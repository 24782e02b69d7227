"""Commit periodically: Kafka's default, and the cheapest pattern."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.patterns.subscribed import Subscribed
from minikafka_client.trio_api.poller import RecordIterator
from minikafka_client.types import Key, Value


class AutoCommit(Subscribed[Key, Value]):
    """Commits what is processed, every ``auto_commit_interval_ms`` (5 s).

    **A crash loses nothing and repeats** what was processed since the last commit: up to
    ``auto_commit_interval_ms`` of work, and the record in process. (Other clients commit what they
    *returned*, so that a crash loses what was not yet processed. Here a record counts as processed
    when the next one is asked for.)

    Without a crash nothing is repeated: there is a commit before partitions go to another member,
    and another on leaving the block.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is required. A partition without a committed offset
            is read from the beginning by default; ``auto_offset_reset="latest"`` may skip records
            of partitions that are added later.

    Raises:
        ValueError: an option is refused.
    """

    _commits_by_itself: ClassVar[bool] = True

    def __aiter__(self) -> RecordIterator[Key, Value]:
        """Iterate over records without end.

        Raises (while iterating):
            KafkaError: as for `Consumer`.
        """
        return aiter(self.consumer)

    def batches(self) -> AsyncIterator[ConsumedBatch[Key, Value]]:
        """Iterate over runs of one partition's records without end.

        Raises (while iterating):
            KafkaError: as for `Consumer`.
        """
        return self.consumer.batches()
