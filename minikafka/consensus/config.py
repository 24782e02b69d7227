"""The members of a quorum, its timing and its limits."""

from __future__ import annotations

from ..data_class import DataClass

__all__ = ["QuorumConfig"]


class QuorumConfig(DataClass):
    """Settings of one node.

    Attributes:
        voters: those whose majority elects and commits, the same on every node, until the log
            records another set (`minikafka.consensus.voters`). A node that is not among them is an
            observer.
        election_timeout_s: a follower that has not heard from its leader for one to two of these
            starts an election; a leader that has not heard from a majority for one steps down.
        heartbeat_s: how often an idle leader sends a message.
        lost_peer_jitter_s: the longest that a follower waits when its leader's process has died.
        append_size_bytes_max: entries in one message, unless one alone is larger.
        appends_in_flight_max: messages to one follower that it has not answered.
        snapshot_piece_size_bytes: bytes of a snapshot in one message.
        snapshot_size_bytes_max: the largest snapshot that is accepted from a leader.
        observers_max: observers that a leader sends to; more are ignored until one leaves.
        observer_silence_s: an observer that is silent for this long is removed.
        log_memory_size_bytes_max: entries kept in memory for followers; older ones are read from
            the disk.
    """

    node_id: int
    voters: frozenset[int]
    election_timeout_s: float = 1.0
    heartbeat_s: float = 0.25
    lost_peer_jitter_s: float = 0.05
    append_size_bytes_max: int = 1024 * 1024
    appends_in_flight_max: int = 32
    snapshot_piece_size_bytes: int = 512 * 1024
    snapshot_size_bytes_max: int = 64 * 1024 * 1024
    observers_max: int = 256
    observer_silence_s: float = 10.0
    log_memory_size_bytes_max: int = 2 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.voters:
            raise ValueError("a quorum has at least one voter; name them in --quorum")
        if not 0 < self.heartbeat_s < self.election_timeout_s:
            raise ValueError(
                f"heartbeat_s={self.heartbeat_s} must be above 0 and below "
                f"election_timeout_s={self.election_timeout_s}"
            )
