"""Settings of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Kafka's settings, with their defaults.

    Attributes:
        transactional_id_expiration_ms: transactional.id.expiration.ms: an id without a transaction
            is forgotten when it has not been used for so long.
        is_two_phase_commit_enabled: transaction.two.phase.commit.enable (KIP-939).
        write_timeout_ms: how long a request waits for its write before it is answered with
            COORDINATOR_NOT_AVAILABLE.
        retry_backoff_ms: the pause after one of the coordinator's own writes has failed.
        completion_linger_ms: how long COMPLETE_* may wait, once all markers are written, to be
            stored together with the beginning of the next transaction.
        parked_wait_ms: how long a request waits for the markers of the previous transaction.
        parked_per_id_max: how many requests may be parked for each transactional id.
        uncommitted_per_id_max: how many writes of a transactional id may be uncommitted, and how
            many commands may wait for each of them; further commands are parked.
        tombstones_per_append_max: how many ids are forgotten at a time.
    """

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    expiration_check_interval_ms: int = 3_600_000
    is_two_phase_commit_enabled: bool = False
    write_timeout_ms: int = 5_000
    retry_backoff_ms: int = 100
    completion_linger_ms: int = 20
    parked_wait_ms: int = 2_000
    parked_per_id_max: int = 8
    uncommitted_per_id_max: int = 8
    tombstones_per_append_max: int = 1_000
