"""Settings of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Kafka's settings, with their defaults.

    Attributes:
        transaction_max_timeout_ms: transaction.max.timeout.ms.
        transactional_id_expiration_ms: transactional.id.expiration.ms: an id without a transaction
            is forgotten when it was not used for so long.
        expiration_check_interval_ms: transaction.remove.expired.transaction.cleanup.interval.ms.
        is_two_phase_commit_enabled: transaction.two.phase.commit.enable (KIP-939).
        write_timeout_ms: how long a write may take before its asker hears that nobody knows.
        retry_backoff_ms: after a write of the coordinator's own has failed.
        completion_linger_ms: how long the end of a transaction, when its markers are written, may
            wait for the beginning of the next one, to be stored with it.
        parked_wait_ms: how long a request waits for the markers of the transaction before.
        parked_per_id_max: how many requests may wait so, for each transactional id.
        uncommitted_per_id_max: how many writes of a transactional id may wait to be committed, and
            how many commands for each of them; more commands are parked.
        tombstones_per_append_max: ids that are forgotten with one batch.
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
