"""How often simulated nodes and their controller do things, in simulated seconds."""

from __future__ import annotations

from typing import NamedTuple


class Timing(NamedTuple):
    """The settings of a cluster that are about time.

    Attributes:
        heartbeat_s: between two heartbeats of a broker.
        session_timeout_s: without a heartbeat until a broker is fenced.
        register_again_s: until a registration without an answer is repeated.
        stop_again_s: between two questions whether it may stop.
        stop_time_max_s: how long a broker tries to hand over before it stops anyway.
        lag_time_max_s: replica.lag.time.max.ms.
        fetch_wait_max_s: how long a follower's fetch waits for records.
        fetch_answer_max_s: until a follower asks again without an answer.
        flush_s: between two flushes of all logs; from and to.
        sync_s: how long an fsync takes; one of these at most.
    """

    heartbeat_s: float = 1.5
    session_timeout_s: float = 4.0
    register_again_s: float = 1.0
    stop_again_s: float = 0.4
    stop_time_max_s: float = 8.0
    lag_time_max_s: float = 6.0
    fetch_wait_max_s: float = 3.0
    fetch_answer_max_s: float = 5.0
    flush_s: tuple[float, float] = (3.0, 15.0)
    sync_s: tuple[float, ...] = (0.02, 0.02, 0.02, 1.5)


DEFAULT = Timing()
