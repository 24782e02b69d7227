"""The options of both producers, with Kafka's defaults unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from minikafka.protocol.records.compression import Compression
from minikafka_client.core.sender import SenderConfig
from minikafka_client.options import ConnectionConfig, ConnectionOptions

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
    batch_size: int
    buffer_memory: int
    max_request_size: int
    compression_type: CompressionType
    compression_level: int | None
    max_in_flight_requests_per_connection: int
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
        enable_idempotence: retries neither duplicate nor reorder; needs acks="all" and
            max_in_flight_requests_per_connection <= 5. None: on if these hold.
        linger_ms: how long an open batch waits for more records.
        batch_size: the largest batch in bytes, before compression. Kafka's default is 16 KiB; here
            a partition starts with that, and grows to this size only if it fills its batches.
        buffer_memory: bytes that records waiting or in flight may take.
        max_request_size: the largest produce request in bytes, and the largest record.
        compression_type: codec of the batches.
        compression_level: the codec's level; None is the codec's default.
        max_in_flight_requests_per_connection: unanswered produce requests per broker, and batches
            of one partition.
        delivery_timeout_ms: from send to the final outcome, retries included.
        max_block_ms: how long sending waits for metadata or memory.
        partitioner: (topic, key, value, partition count) -> partition; None is Kafka's default
            (murmur2 of the key; without a key, one partition until its batch is full).
        transactional_id: records are sent in transactions. Use the same id after a restart, in one
            process at a time: a producer that starts with it ends what another has left open.
        transaction_timeout_ms: the coordinator aborts a transaction that takes longer.
        transaction_two_phase_commit_enable: transactions have no timeout, and a prepared one
            survives its producer (KIP-939); the broker must allow it.

    Raises:
        ValueError: the options contradict each other or are out of range.
    """

    acks: Acks = "all"
    enable_idempotence: bool | None = None
    linger_ms: float = 5
    batch_size: int = 256 * 1024
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1024 * 1024
    compression_type: CompressionType = "none"
    compression_level: int | None = None
    max_in_flight_requests_per_connection: int = 5
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    partitioner: Partitioner | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    transaction_two_phase_commit_enable: bool = False

    def __post_init__(self) -> None:
        if self.acks not in ("all", -1, 0, 1):
            raise ValueError(f"acks={self.acks!r}; it is 'all' (-1), 1 or 0")
        if self.compression_type.upper() not in Compression.__members__:
            names = ", ".join(name.lower() for name in Compression.__members__)
            raise ValueError(f"compression_type={self.compression_type!r}; it is one of {names}")
        if self.max_in_flight_requests_per_connection < 1:
            raise ValueError(
                f"max_in_flight_requests_per_connection="
                f"{self.max_in_flight_requests_per_connection}; at least 1 is needed"
            )
        if self.enable_idempotence and not self._can_be_idempotent:
            raise ValueError(
                f"enable_idempotence needs acks='all' (not {self.acks!r}) and "
                f"max_in_flight_requests_per_connection <= {IDEMPOTENT_IN_FLIGHT_MAX} (not "
                f"{self.max_in_flight_requests_per_connection})"
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
                f"{self.acks!r}), max_in_flight_requests_per_connection <= "
                f"{IDEMPOTENT_IN_FLIGHT_MAX} (not "
                f"{self.max_in_flight_requests_per_connection}), enable_idempotence not False"
            )
        if self.transaction_timeout_ms < 1:
            raise ValueError(
                f"transaction_timeout_ms={self.transaction_timeout_ms}; at least 1 is needed"
            )

    @property
    def _can_be_idempotent(self) -> bool:
        return (
            self.acks in ("all", -1)
            and self.max_in_flight_requests_per_connection <= IDEMPOTENT_IN_FLIGHT_MAX
        )

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry a producer id and sequences."""
        if self.enable_idempotence is None:
            return self._can_be_idempotent
        return self.enable_idempotence


def sender_config_of(
    config: ProducerConfig, connection: ConnectionConfig, *, linger_s: float
) -> SenderConfig:
    """The sender's part of the options; ``linger_s`` is how long a batch waits to fill up."""
    return SenderConfig(
        acks=-1 if config.acks == "all" else config.acks,
        is_idempotent=config.is_idempotent,
        linger_s=linger_s,
        max_in_flight=config.max_in_flight_requests_per_connection,
        max_request_size=config.max_request_size,
        request_timeout_ms=connection.request_timeout_ms,
        compression=Compression[config.compression_type.upper()],
        compression_level=config.compression_level,
        transactional_id=config.transactional_id,
    )
