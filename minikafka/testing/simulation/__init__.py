"""A program of yours against three simulated brokers, on virtual time and from a seed.

    async def program(cluster: simulation.Cluster) -> None:
        await cluster.create_topic("orders", partitions=2)
        cluster.start_soon("web", take_orders)
        cluster.start_soon("worker", ship_orders)  # calls cluster.processed(record)

    simulation.check(program, seeds=50, guarantee="at_least_once")

The program is an ordinary trio program with `minikafka_client`, the brokers are whole ones. Time,
the network, the disks and what goes wrong are simulated: brokers and processes are killed and
paused, links cut, requests and acknowledgements lost. What was acknowledged, consumed, processed
and committed is judged in the end. Everything follows from the seed, so a run can be repeated.

`check` runs seeds until one fails, looks for the few faults that matter, and raises
`SimulationFailed` with the story of the record that was lost or doubled. ``docs/testing.md`` has
an example, and what this cannot show.
"""

from __future__ import annotations

from .checking import SimulationFailed, check
from .cluster import Cluster, Program
from .judging import Guarantee, Violation
from .running import Report, run
from .schedule import (
    KINDS,
    CutLinks,
    Fault,
    Faults,
    Isolate,
    JumpClock,
    KillBroker,
    KillProcess,
    LoseAcknowledgement,
    LosePower,
    LoseRequest,
    PauseBroker,
    PauseProcess,
    SlowLink,
)
from .shrinking import shrink

__all__ = [
    "KINDS",
    "Cluster",
    "CutLinks",
    "Fault",
    "Faults",
    "Guarantee",
    "Isolate",
    "JumpClock",
    "KillBroker",
    "KillProcess",
    "LoseAcknowledgement",
    "LosePower",
    "LoseRequest",
    "PauseBroker",
    "PauseProcess",
    "Program",
    "Report",
    "SimulationFailed",
    "SlowLink",
    "Violation",
    "check",
    "run",
    "shrink",
]
