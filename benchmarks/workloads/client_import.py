"""How long it takes to import a client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from ..processes import ROOT
from ..workload import Figure, Round, Run, Workload

_SIDES = {
    "minikafka_client": "import minikafka_client",
    "its producer and consumer": "from minikafka_client import Producer, Consumer",
    "trio alone": "import trio",
    "confluent": "from confluent_kafka import Producer, Consumer",
    "aiokafka": "from aiokafka import AIOKafkaProducer, AIOKafkaConsumer",
    "kafka-python": "from kafka import KafkaProducer, KafkaConsumer",
}


def measure(run: Run) -> Iterator[Round]:
    """A new interpreter for each statement, timed inside it, without its own start."""

    def side(name: str, statement: str) -> Callable[[], Round]:
        program = (
            "import time; started = time.perf_counter()\n"
            f"{statement}\n"
            "print(time.perf_counter() - started)"
        )

        def import_once() -> Round:
            done = subprocess.run(
                [sys.executable, "-c", program],
                check=True,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            return {name: 1000 * float(done.stdout)}

        return import_once

    sides = {name: side(name, statement) for name, statement in _SIDES.items()}
    for warm_up in sides.values():
        warm_up()  # compiles what has changed since the last run
    return run.interleaved(**sides)


WORKLOAD = Workload(
    name="client-import",
    measures="The time of an import statement in a new interpreter, with warm file caches.",
    function=measure,
    figures=(
        *(
            Figure(name=name, unit="ms", of=name, at_most=150)
            for name in ("minikafka_client", "its producer and consumer")
        ),
        *(Figure(name=name, unit="ms", of=name) for name in list(_SIDES)[2:]),
    ),
    rounds=9,
)
