"""Commit by the clock: Kafka's default, and the cheapest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Unpack

from minikafka_client.consumer_options import ConsumerOptions
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.patterns.subscribed import Subscribed, Topics
from minikafka_client.trio_face.reading import RebalanceCallback
from minikafka_client.types import ConsumerRecord, Key, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer


class AutoCommit(Subscribed[Key, Value]):
    """Commits what is processed, every ``auto_commit_interval_ms`` (5 s).

    **A crash loses nothing and repeats** what was processed since the last commit: up to
    ``auto_commit_interval_ms`` of work, and the record in process. (Other clients commit what was
    *handed out*, and a crash then loses what was not processed of it. Here a record counts as
    processed when the next one is asked for.)

    Without a crash nothing is repeated: there is a commit before partitions go to another member,
    and one on leaving the block.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is needed. A partition without a committed offset is
            read from its beginning unless ``auto_offset_reset`` says otherwise: ``"latest"`` may
            skip records of partitions that are added later.

    Raises:
        ValueError: an option is refused.
    """

    commits_by_itself: ClassVar[bool] = True

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            bootstrap,
            topics,
            options,
            on_partitions_revoked=on_partitions_revoked,
            on_partitions_assigned=on_partitions_assigned,
            on_partitions_lost=on_partitions_lost,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end.

        Raises (while iterating):
            KafkaError: as for `Consumer`.
        """
        return aiter(self.consumer)

    def batches(self) -> AsyncIterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records without end.

        Raises (while iterating):
            KafkaError: as for `Consumer`.
        """
        return self.consumer.batches()
