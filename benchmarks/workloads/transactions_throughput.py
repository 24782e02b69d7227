"""What transactions cost a producer under full load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict

from ..cluster import cluster
from ..load.admin import end_offsets
from ..load.cluster_admin import create_topic
from ..load.transactions_job import TransactionsJob, TransactionsOutcome, check_sent
from ..processes import broker, run_load
from ..workload import Figure, Round, Run, Workload

RECORDS = 1000
PARTITIONS = 4
_TRANSACTIONS = {100: 200, 1000: 60}
"""How many there are, by the size of a value in bytes."""
_BROKERS = (1, 3)
_CLIENTS = ("minikafka", "confluent")
_WORKS = ("transactions", "flushes", "stream")


def measure(run: Run) -> Iterator[Round]:
    """A single broker and a cluster of three for all rounds; a topic for each side and round."""
    written_bytes = sum(size * run.scaled(count) for size, count in _TRANSACTIONS.items())
    written_bytes *= run.rounds * len(_CLIENTS) * len(_WORKS) * RECORDS * sum(_BROKERS)
    with ExitStack() as stack:
        folder = stack.enter_context(run.fresh_folder(written_bytes))
        bootstraps = {
            1: stack.enter_context(broker(folder / "one")).bootstrap,
            3: stack.enter_context(cluster(folder / "three", 3)).bootstrap,
        }

        def side(client: str, brokers: int, size: int, work: str) -> Callable[[], Round]:
            topics = iter(range(run.rounds))
            transactions = run.scaled(_TRANSACTIONS[size])

            def produce() -> Round:
                job = TransactionsJob(
                    work=work,
                    bootstrap=bootstraps[brokers],
                    topic=f"{client}-{work}-{size}-{next(topics)}",
                    partitions=PARTITIONS,
                    transactions=transactions,
                    records=RECORDS,
                    value_bytes=size,
                )
                outcome = run_transactions(client, job, replicas=brokers)
                return {_measure(client, brokers, size, work): transactions / outcome.seconds}

            return produce

        yield from run.interleaved(
            **{
                _measure(client, brokers, size, work): side(client, brokers, size, work)
                for brokers in _BROKERS
                for size in _TRANSACTIONS
                for client in _CLIENTS
                for work in _WORKS
            }
        )


def _measure(client: str, brokers: int, size: int, work: str) -> str:
    number = "one broker" if brokers == 1 else "three brokers"
    return f"{client} {work}, {size} bytes, {number}"


def run_transactions(client: str, job: TransactionsJob, *, replicas: int) -> TransactionsOutcome:
    """Have a client do a job on a new topic, and check that it has every record once.

    Raises:
        RuntimeError: the topic has fewer records, or more.
    """
    create_topic(job.bootstrap, job.topic, job.partitions, replicas)
    outcome = TransactionsOutcome(**run_load(f"transactions_{client}", asdict(job)))
    check_sent(job, [*end_offsets(job.bootstrap, [job.topic], job.partitions).values()])
    return outcome


def _ratio(client: str, brokers: int, size: int, against: str) -> Figure:
    return Figure(
        name=_measure(client, brokers, size, f"over {against}"),
        unit="x",
        of=_measure(client, brokers, size, "transactions"),
        per=_measure(client, brokers, size, against),
        at_least=0.8 if against == "flushes" else None,
    )


WORKLOAD = Workload(
    name="transactions-throughput",
    measures="Records of 100 and of 1,000 bytes in transactions of 1,000, on one broker and on "
    "three (three replicas), through our client and confluent-kafka: over an idempotent producer "
    "that flushes where the other commits, and over one that never flushes in between.",
    function=measure,
    figures=(
        *(
            _ratio(client, brokers, size, against)
            for against in ("flushes", "stream")
            for brokers in _BROKERS
            for size in _TRANSACTIONS
            for client in _CLIENTS
        ),
        *(
            Figure(
                name=_measure(client, brokers, size, work),
                unit="x 1,000 records/s",
                of=_measure(client, brokers, size, work),
            )
            for brokers in _BROKERS
            for size in _TRANSACTIONS
            for client in _CLIENTS
            for work in _WORKS
        ),
    ),
)
