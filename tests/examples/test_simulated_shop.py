"""The shop of examples/simulated: the simulator finds its bugs, and without them all is well."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest

from examples.simulated.shop import (
    OrderBook,
    Store,
    ship,
    ship_once,
    take_orders,
    write_invoices,
)
from minikafka.testing import simulation

Play = Callable[[simulation.Cluster], None]


async def program(cluster: simulation.Cluster, play: Play) -> None:
    await cluster.create_topic("orders", partitions=2)
    await cluster.create_topic("invoices", partitions=2)
    play(cluster)


def shipping(
    cluster: simulation.Cluster, *, ignores_failures: bool = False, commits_first: bool = False
) -> None:
    cluster.start_soon("web", take_orders, OrderBook(), ignores_failures)
    for name in ("worker1", "worker2"):
        cluster.start_soon(name, ship, commits_first)


def shipping_once(cluster: simulation.Cluster, *, checks_early: bool = False) -> None:
    cluster.start_soon("web", take_orders, OrderBook())
    store = Store()
    for name in ("worker1", "worker2"):
        cluster.start_soon(name, ship_once, store, checks_early)


def invoicing(cluster: simulation.Cluster) -> None:
    cluster.start_soon("web", take_orders, OrderBook())
    cluster.output(
        "invoices",
        "orders",
        identity=lambda _, value: (value or b"")[12:],
        source_identity=lambda _, value: value,
    )
    for name in ("worker1", "worker2"):
        cluster.start_soon(name, write_invoices)


# The first seed saves time here: from 0 on, each bug is found in at most six seeds.
BUGS: dict[str, tuple[int, Play, simulation.Guarantee, str, str]] = {
    "commit before process": (
        10,
        partial(shipping, commits_first=True),
        "at_least_once",
        "lost",
        "group 'shipping' commits offset",
    ),
    "lost retry": (
        0,
        partial(shipping, ignores_failures=True),
        "at_least_once",
        "lost",
        "learns that it failed",
    ),
    "zombie writer": (
        0,
        partial(shipping_once, checks_early=True),
        "exactly_once",
        "duplicated",
        "processed by worker",
    ),
}
RIGHT: dict[str, tuple[Play, simulation.Guarantee]] = {
    "at least once": (shipping, "at_least_once"),
    "exactly once": (shipping_once, "exactly_once"),
    "invoices": (invoicing, "exactly_once"),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found_and_told_with_few_faults(bug: str) -> None:
    first, play, guarantee, kind, told = BUGS[bug]
    reports = (
        simulation.run(partial(program, play=play), seed=seed, guarantee=guarantee)
        for seed in range(first, 50)
    )
    found = next(one for one in reports if not one.is_good)
    assert found.violations[0].kind == kind
    report = simulation.shrink(found, runs_max=16)
    assert report.violations[0].kind == kind
    assert 1 <= len(report.faults) <= 5
    sys.stdout.write(report.story)
    assert told in report.story
    again = simulation.run(
        partial(program, play=play), seed=report.seed, faults=report.faults, guarantee=guarantee
    )
    assert again.fingerprint == report.fingerprint


@pytest.mark.parametrize("name", RIGHT)
def test_without_bugs_all_is_well(name: str) -> None:
    play, guarantee = RIGHT[name]
    reports: list[simulation.Report] = []
    simulation.check(
        partial(program, play=play), seeds=3, guarantee=guarantee, on_run=reports.append
    )
    assert sum(len(one.faults) for one in reports) > 10  # what did nothing has shown nothing
    assert all(one.counts["acknowledged"] >= 30 for one in reports)
