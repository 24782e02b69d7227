"""Transactions of one producer, on one broker and on three of each side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ..load.transactions_job import TransactionsJob
from ..peers import LIBRDKAFKA, OURS
from ..plots import Axis
from ..workload import Figure, Plot, Round, Run, Workload
from ..workloads.transactions_throughput import PARTITIONS, RECORDS, run_transactions
from .loads import drop
from .one_broker import SIDES, counted, over_apache
from .servers import NODES, Served, Stage

VALUE_BYTES: Final = 100
TRANSACTIONS: Final = {1: 200, NODES: 100}
_CLIENT: Final = "confluent"
_WORKS: Final = ("transactions", "flushes")
_OVER_FLUSHES_MIN: Final = {1: 0.8, NODES: 0.7}


def on_one(stage: Stage) -> Workload:
    """Transactions on a single broker."""
    return _part(stage, 1)


def on_three(stage: Stage) -> Workload:
    """Transactions on three brokers, with three replicas of everything."""
    return _part(stage, NODES)


def _part(stage: Stage, nodes: int) -> Workload:
    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides(nodes)

        def side_of(side: Served) -> Callable[[], Round]:
            def produce() -> Round:
                found: dict[str, float] = {}
                for work in _WORKS:
                    transactions = max(5, run.scaled(TRANSACTIONS[nodes]))
                    job = TransactionsJob(
                        work=work,
                        bootstrap=side.bootstrap,
                        topic=stage.topic(),
                        partitions=PARTITIONS,
                        transactions=transactions,
                        records=RECORDS,
                        value_bytes=VALUE_BYTES,
                    )
                    outcome = run_transactions(_CLIENT, job, replicas=nodes)
                    found[f"{side.name} {work}"] = transactions * RECORDS / outcome.seconds
                    drop(side, job.topic)
                return found

            return produce

        yield from run.interleaved(**{name: side_of(side) for name, side in sides.items()})

    return Workload(
        name=f"transactions, {counted(nodes, 'broker')}",
        measures=f"{RECORDS:,} records of {VALUE_BYTES} B in each transaction through librdkafka "
        f"(one producer, its defaults), four partitions of {counted(nodes, 'replica')}, beside an "
        "idempotent producer that flushes where the other commits.",
        function=measure,
        needs=frozenset({LIBRDKAFKA}),
        figures=(
            over_apache("transactions", "transactions", at_least=1.5),
            over_apache("flushes", "flushes"),
            *(
                Figure(
                    name=f"{side}, transactions over flushes",
                    unit="x",
                    of=f"{side} transactions",
                    per=f"{side} flushes",
                    at_least=_OVER_FLUSHES_MIN[nodes] if side == OURS else None,
                    good="higher",
                )
                for side in SIDES
            ),
            *(
                Figure(name=f"{side}, {work}", unit="records/s", of=f"{side} {work}")
                for work in _WORKS
                for side in SIDES
            ),
        ),
        plots=[
            Plot(
                title=f"{RECORDS:,} records between commits or flushes, {counted(nodes, 'broker')}",
                x=None,
                y=Axis("records per second"),
                series={side: [(work, f"{side} {work}") for work in _WORKS] for side in SIDES},
            )
        ],
        rounds=4,
        seconds=30 if nodes == 1 else 45,
    )
