"""How stalls are read off the acknowledgements of a steady producer."""

from __future__ import annotations

from benchmarks.load.steady import SteadyOutcome
from benchmarks.workloads.cluster_failover import longest_pause, stall_after

# Two partitions: (sent, acknowledged).
OUTCOME = SteadyOutcome(
    acks=[
        [(1.0, 1.1), (1.9, 3.0), (3.1, 3.2), (4.0, 4.1)],
        [(1.5, 1.6), (2.1, 2.6), (3.0, 3.1), (4.5, 4.6)],
    ]
)


def test_a_stall_ends_with_a_record_that_was_sent_after_the_kill() -> None:
    assert stall_after(OUTCOME, (2.0, [0])) == 3.2 - 2.0
    assert stall_after(OUTCOME, (2.0, [1])) == 2.6 - 2.0


def test_the_slowest_partition_counts() -> None:
    assert stall_after(OUTCOME, (2.0, [0, 1])) == 3.2 - 2.0


def test_the_longest_pause_is_between_two_acknowledgements_of_one_partition() -> None:
    assert longest_pause(OUTCOME, 1.0, 5.0) == 3.0 - 1.1
    assert longest_pause(OUTCOME, 3.0, 5.0) == 4.6 - 3.1
    assert longest_pause(OUTCOME, 4.7, 5.0) == 5.0 - 4.7
