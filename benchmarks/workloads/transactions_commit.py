"""How long a commit takes, compared with the acknowledgement of a single record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..cluster import cluster
from ..load.transactions_job import TransactionsJob
from ..workload import Figure, Round, Run, Workload
from .transactions_throughput import run_transactions

TRANSACTIONS = 500
VALUE_BYTES = 100
PARTITIONS = 5
_CLIENTS = ("minikafka", "confluent")
_STEPS = ("commit", "transaction", "round trip")


def measure(run: Run) -> Iterator[Round]:
    """One cluster for all rounds; a topic for each side and round."""
    with run.fresh_folder() as folder, cluster(folder, 3) as running:

        def side(client: str, work: str) -> Callable[[], Round]:
            topics = iter(range(run.rounds))

            def commit() -> Round:
                job = TransactionsJob(
                    work=work,
                    bootstrap=running.bootstrap,
                    topic=f"{client}-{work.replace(' ', '-')}-{next(topics)}",
                    partitions=PARTITIONS,
                    transactions=run.scaled(TRANSACTIONS),
                    records=PARTITIONS,
                    value_bytes=VALUE_BYTES,
                )
                medians = run_transactions(client, job, replicas=3).median_seconds
                return {f"{client} {step}": 1e6 * one for step, one in medians.items()}

            return commit

        yield from run.interleaved(
            **{
                f"{client} {work}": side(client, work)
                for client in _CLIENTS
                for work in ("commits", "round trips")
            }
        )


WORKLOAD = Workload(
    name="transactions-commit",
    measures="Transactions of one record of 100 bytes to each of five partitions, one after the "
    "other, three brokers, three replicas: p50 from the call of commit to its return, when the "
    "records were acknowledged before, over p50 of one record with acks=all. And the whole "
    "transaction, records included.",
    function=measure,
    figures=(
        *(
            Figure(
                name=f"{client} {step} over a record",
                unit="x",
                of=f"{client} {step}",
                per=f"{client} round trip",
                at_most=4 if step == "commit" else None,
            )
            for step in ("commit", "transaction")
            for client in _CLIENTS
        ),
        *(
            Figure(name=f"{client} {step} p50", unit="us", of=f"{client} {step}")
            for client in _CLIENTS
            for step in _STEPS
        ),
    ),
    rounds=5,
)
