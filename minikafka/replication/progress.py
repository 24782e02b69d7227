"""What a leader knows about one of its followers, and which brokers may be in an ISR."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

__all__ = [
    "LONG_AGO",
    "UNKNOWN_EPOCH",
    "UNKNOWN_OFFSET",
    "UNTIL_IT_FETCHES",
    "EligibleBrokers",
    "FollowerProgress",
]

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
LONG_AGO: Final = float("-inf")
UNTIL_IT_FETCHES: Final = float("inf")


class EligibleBrokers:
    """Brokers that may be in an ISR: registered and not fenced (KIP-841).

    One object for all partitions of a node. When the metadata image changes, the shell replaces
    ``epochs`` first, then calls `LeaderReplica.image_changed` for partitions that changed and
    `LeaderReplica.eligibility_changed` for others that have a replica on a broker concerned.

    Attributes:
        epochs: Broker epoch by broker id, of all brokers that are not fenced.
        shutting_down: Those of them that are about to stop: they stay in the ISRs they are in, but
            join no other and do not become leaders.
    """

    __slots__ = ("epochs", "shutting_down")

    def __init__(self, epochs: Mapping[int, int], shutting_down: Collection[int] = ()) -> None:
        self.epochs = epochs
        self.shutting_down = shutting_down

    def may_join(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a follower that fetched with that broker epoch may join an ISR."""
        return self.epochs.get(broker_id) == broker_epoch and broker_id not in self.shutting_down


class FollowerProgress:
    """One follower, as its fetches in this leader epoch show it.

    Attributes:
        broker_epoch: Of its last fetch: identifies the incarnation of the broker (KIP-903).
        fetch_offset: The follower has everything below it; -1 before its first fetch in this
            leader epoch. It goes down only when the follower has lost records.
        last_caught_up_at: The last time at which it had everything the leader had.
        join_after: It does not join the ISR before this time: its join was refused, or it has left
            and did not fetch since.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "fetch_offset",
        "join_after",
        "last_caught_up_at",
        "last_fetch_at",
        "leader_end_at_last_fetch",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id: Final = broker_id
        self.broker_epoch = UNKNOWN_EPOCH
        self.forget(LONG_AGO)

    def forget(self, last_caught_up_at: float) -> None:
        """A new leader epoch: nothing is known about the follower's log until it fetches."""
        self.fetch_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_at = LONG_AGO
        self.leader_end_at_last_fetch = UNKNOWN_OFFSET
        self.last_caught_up_at = last_caught_up_at
        self.join_after = LONG_AGO

    def fetched(
        self,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now: float,
    ) -> None:
        """Record a fetch.

        A follower behind a busy leader never reaches its end; it counts as caught up at the time
        of its previous fetch once it has what the leader had then.
        """
        if fetch_offset < self.fetch_offset or broker_epoch != self.broker_epoch != UNKNOWN_EPOCH:
            self.last_caught_up_at = LONG_AGO  # it has lost records, or is a new process
        elif fetch_offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_at = max(self.last_caught_up_at, self.last_fetch_at)
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_at = now
        self.broker_epoch = broker_epoch
        self.fetch_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_at = now

    def is_caught_up(self, leader_end_offset: int, lag_time_max_s: float, now: float) -> bool:
        """Whether it has everything, or had it less than ``lag_time_max_s`` ago."""
        return (
            self.fetch_offset >= leader_end_offset or now < self.last_caught_up_at + lag_time_max_s
        )
