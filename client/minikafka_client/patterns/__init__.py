"""The delivery patterns by name: what a crash loses, and what it repeats.

    async with AtLeastOnce("localhost:9092", ["orders"], group_id="billing") as orders:
        async for order in orders:
            await charge(order)

| pattern                                | lost by a crash     | repeated after a crash       |
|----------------------------------------|---------------------|------------------------------|
| `AutoCommit`                           | nothing             | up to some seconds of work   |
| `AtMostOnce`: commit before processing | what was handed out | nothing                      |
| `AtLeastOnce`: commit after processing | nothing             | what was not committed yet   |
| `ExactlyOnceInto`: offsets with results | nothing            | nothing                      |
| `ConsumeTransformProduce`: transactions | nothing            | nothing                      |

A crash is the end of the process at any point: ``kill -9``, power, a bug. Whoever reads a record
asks for the next one when it is processed; the patterns rely on that, so a record that was handed
to another task counts as processed although it may not be. Records that the broker deletes before
they are read (retention, DeleteRecords) are beyond any pattern.

`minikafka_client.patterns.sqlite` is a store for `ExactlyOnceInto`, and has a table in which a
record that is written twice appears once.
"""

from minikafka_client.patterns.at_least_once import AtLeastOnce
from minikafka_client.patterns.at_most_once import AtMostOnce
from minikafka_client.patterns.auto_commit import AutoCommit
from minikafka_client.patterns.consume_transform_produce import (
    ConsumeTransformProduce,
    TransformBatch,
)
from minikafka_client.patterns.exactly_once import ExactlyOnceInto, OffsetStore

__all__ = [
    "AtLeastOnce",
    "AtMostOnce",
    "AutoCommit",
    "ConsumeTransformProduce",
    "ExactlyOnceInto",
    "OffsetStore",
    "TransformBatch",
]
