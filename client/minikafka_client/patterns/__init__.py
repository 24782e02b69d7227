"""The delivery patterns by name: what a crash loses, and what it repeats.

    async with AtLeastOnce("localhost:9092", ["orders"], group_id="billing") as orders:
        async for order in orders:
            await charge(order)

| pattern                                | lost by a crash     | repeated after a crash       |
|----------------------------------------|---------------------|------------------------------|
| `AutoCommit`                           | nothing             | up to a few seconds of work   |
| `AtMostOnce`: commit before processing | what was handed out | nothing                      |
| `AtLeastOnce`: commit after processing | nothing             | what was not yet committed   |
| `ExactlyOnceInto`: offsets with results | nothing            | nothing                      |
| `ConsumeTransformProduce`: transactions | nothing            | nothing                      |

A crash is the end of the process at any point: ``kill -9``, a power failure, a bug. Asking for the
next record means that the one before it is processed. So a record that was passed on to another
task counts as processed, although it may not be. No pattern covers records that the broker deletes
before they are read (retention, DeleteRecords).

`minikafka_client.patterns.sqlite` has a store for `ExactlyOnceInto`, and a table in which a record
that is written twice appears once. `minikafka_client.patterns.blocking` has the same patterns for
programs without trio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_client.exports import lazy_exports

if TYPE_CHECKING:
    from minikafka_client.patterns.at_least_once import AtLeastOnce as AtLeastOnce
    from minikafka_client.patterns.at_most_once import AtMostOnce as AtMostOnce
    from minikafka_client.patterns.auto_commit import AutoCommit as AutoCommit
    from minikafka_client.patterns.consume_transform_produce import (
        ConsumeTransformProduce as ConsumeTransformProduce,
    )
    from minikafka_client.patterns.consume_transform_produce import TransformBatch as TransformBatch
    from minikafka_client.patterns.exactly_once import ExactlyOnceInto as ExactlyOnceInto
    from minikafka_client.patterns.exactly_once import OffsetStore as OffsetStore

_HOMES = {
    "at_least_once": "AtLeastOnce",
    "at_most_once": "AtMostOnce",
    "auto_commit": "AutoCommit",
    "consume_transform_produce": "ConsumeTransformProduce TransformBatch",
    "exactly_once": "ExactlyOnceInto OffsetStore",
}
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
