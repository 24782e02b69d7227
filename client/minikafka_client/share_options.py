"""The options of both share consumers, with Kafka's defaults unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypedDict

from minikafka_client.errors import KafkaError
from minikafka_client.options import ConnectionOptions
from minikafka_client.types import Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

AcknowledgedCallback = Callable[[TopicPartition, Sequence[int], KafkaError | None], object]
"""Called with offsets of a partition whose acknowledgement took effect, or failed."""

AcknowledgementModeName = Literal["implicit", "explicit"]
AcquireModeName = Literal["batch_optimized", "record_limit"]


class ShareConsumerArguments(TypedDict, Generic[Key, Value], total=False):
    """Keyword arguments of a share consumer besides its options; see `ShareConsumer`."""

    on_acknowledged: AcknowledgedCallback | None
    key_deserializer: Deserializer[Key] | None
    value_deserializer: Deserializer[Value] | None


class ShareConsumerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a share consumer; see `ShareConsumerConfig`."""

    share_acknowledgement_mode: AcknowledgementModeName
    share_acquire_mode: AcquireModeName
    max_poll_records: int
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    check_crcs: bool
    client_rack: str
    allow_auto_create_topics: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig:
    """How to consume from a share group.

    Attributes:
        share_acknowledgement_mode: ``"implicit"`` accepts a record when the next one is asked for,
            unless the program has acknowledged it otherwise; ``"explicit"`` leaves every
            acknowledgement to the program.
        share_acquire_mode: ``"record_limit"`` never acquires more than ``max_poll_records`` at once
            (KIP-1206); ``"batch_optimized"`` acquires whole batches.
        max_poll_records: how many records to acquire at once. Their locks run from then on.
        max_poll_interval_ms: the longest time between two polls.
        fetch_min_bytes: a broker waits for this much ...
        fetch_max_wait_ms: ... but no longer than this.
        fetch_max_bytes: largest fetch response (one batch may exceed it).
        check_crcs: verify every batch's CRC-32C.
        client_rack: this consumer's location.
        allow_auto_create_topics: whether subscribing may create a topic, if the broker allows it.

    Where a group starts, how long it locks records and how often it delivers them are settings of
    the group at the broker: ``share.auto.offset.reset``, ``share.record.lock.duration.ms``,
    ``share.delivery.count.limit``.

    Raises:
        ValueError: an option is out of range.
    """

    share_acknowledgement_mode: AcknowledgementModeName = "implicit"
    share_acquire_mode: AcquireModeName = "batch_optimized"
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * 1024 * 1024
    check_crcs: bool = True
    client_rack: str = ""
    allow_auto_create_topics: bool = True

    def __post_init__(self) -> None:
        for name, known in (
            ("share_acknowledgement_mode", ("implicit", "explicit")),
            ("share_acquire_mode", ("batch_optimized", "record_limit")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r}; it is {' or '.join(known)}")
        if self.max_poll_records < 1:
            raise ValueError(f"max_poll_records={self.max_poll_records}; it is at least 1")
