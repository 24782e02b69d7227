"""The options of both producers, with Kafka's defaults unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from minikafka.protocol.records.compression import Compression
from minikafka_client.options import ConnectionOptions

Acks = Literal["all", -1, 0, 1]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Partitioner = Callable[[str, bytes | None, bytes | None, int], int]

IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
"""Brokers remember this many batches per producer and partition (KIP-98)."""


class ProducerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a producer; their meaning and defaults are in `ProducerConfig`."""

    acks: Acks
    enable_idempotence: bool | None
    linger_ms: float
    batch_size_bytes: int
    buffer_memory_bytes: int
    request_size_bytes_max: int
    compression: CompressionType
    compression_level: int | None
    max_in_flight: int
    delivery_timeout_ms: int
    max_block_ms: int
    partitioner: Partitioner | None
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """How to produce.

    Attributes:
        acks: ``"all"`` (-1), 1 or 0. With 0 the broker never answers and offsets are -1.
        enable_idempotence: no duplicates and no reordering by retries; needs acks="all" and
            max_in_flight <= 5. None: on when these hold.
        linger_ms: how long an open batch waits for more records.
        batch_size_bytes: the largest batch, before compression. Larger than Kafka's 16 KiB: a
            partition begins with that and comes to this size only when it fills its batches.
        buffer_memory_bytes: records waiting or in flight take at most this much.
        request_size_bytes_max: largest produce request; also the largest record.
        compression: codec of the batches.
        compression_level: the codec's level; None is the codec's default.
        max_in_flight: unanswered produce requests per broker, and batches of one partition.
        delivery_timeout_ms: from send to the final outcome, retries included.
        max_block_ms: how long sending waits for metadata or memory.
        partitioner: (topic, key, value, partition count) -> partition; None is Kafka's default
            (murmur2 of the key; without a key, one partition until a batch is closed).
        transactional_id: records are sent in transactions. The same id after a restart, and only
            in one process at a time: whoever begins with it ends what another has left open.
        transaction_timeout_ms: a transaction that takes longer is aborted by its coordinator.
        transaction_two_phase_commit_enable: transactions have no timeout, and what is prepared
            survives its producer (KIP-939); the broker must allow it.

    Raises:
        ValueError: the options contradict each other or are out of range.
    """

    acks: Acks = "all"
    enable_idempotence: bool | None = None
    linger_ms: float = 5
    batch_size_bytes: int = 256 * 1024
    buffer_memory_bytes: int = 32 * 1024 * 1024
    request_size_bytes_max: int = 1024 * 1024
    compression: CompressionType = "none"
    compression_level: int | None = None
    max_in_flight: int = 5
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    partitioner: Partitioner | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    transaction_two_phase_commit_enable: bool = False

    def __post_init__(self) -> None:
        if self.acks not in ("all", -1, 0, 1):
            raise ValueError(f"acks={self.acks!r}; it is 'all' (-1), 1 or 0")
        if self.compression.upper() not in Compression.__members__:
            names = ", ".join(name.lower() for name in Compression.__members__)
            raise ValueError(f"compression={self.compression!r}; it is one of {names}")
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight={self.max_in_flight}; at least 1 is needed")
        if self.enable_idempotence and not self._can_be_idempotent:
            raise ValueError(
                f"enable_idempotence needs acks='all' (not {self.acks!r}) and max_in_flight <= "
                f"{IDEMPOTENT_IN_FLIGHT_MAX} (not {self.max_in_flight})"
            )

        if self.transactional_id is not None:
            self._check_transactional()
        elif self.transaction_two_phase_commit_enable:
            raise ValueError(
                "transaction_two_phase_commit_enable=True needs a transactional_id: prepared "
                "transactions are found again by it"
            )

    def _check_transactional(self) -> None:
        if not self.transactional_id:
            raise ValueError("transactional_id is empty; give it a name, or None")
        if not self.is_idempotent:
            raise ValueError(
                f"transactional_id={self.transactional_id!r} needs idempotence: acks='all' (not "
                f"{self.acks!r}), max_in_flight <= {IDEMPOTENT_IN_FLIGHT_MAX} (not "
                f"{self.max_in_flight}), enable_idempotence not False"
            )
        if self.transaction_timeout_ms < 1:
            raise ValueError(
                f"transaction_timeout_ms={self.transaction_timeout_ms}; at least 1 is needed"
            )

    @property
    def _can_be_idempotent(self) -> bool:
        return self.acks in ("all", -1) and self.max_in_flight <= IDEMPOTENT_IN_FLIGHT_MAX

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry a producer id and sequences."""
        if self.enable_idempotence is None:
            return self._can_be_idempotent
        return self.enable_idempotence
