"""The blocking API: the same classes for programs without trio.

`AdminClient`, `Reader`, `Writer` and `TransactionalWriter` use blocking sockets, and neither
threads nor trio. `Producer`, `Consumer` and `ShareConsumer` need background work: each runs the
trio class in a thread of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_client.exports import lazy_exports

if TYPE_CHECKING:
    from minikafka_client.sync.admin import AdminClient as AdminClient
    from minikafka_client.sync.consumer import Consumer as Consumer
    from minikafka_client.sync.producer import Deliveries as Deliveries
    from minikafka_client.sync.producer import Delivery as Delivery
    from minikafka_client.sync.producer import Producer as Producer
    from minikafka_client.sync.producer import Transaction as Transaction
    from minikafka_client.sync.reader import Reader as Reader
    from minikafka_client.sync.share_consumer import ShareConsumer as ShareConsumer
    from minikafka_client.sync.transactional_writer import (
        TransactionalWriter as TransactionalWriter,
    )
    from minikafka_client.sync.writer import Writer as Writer

_HOMES = {
    "admin": "AdminClient",
    "consumer": "Consumer",
    "producer": "Deliveries Delivery Producer Transaction",
    "reader": "Reader",
    "share_consumer": "ShareConsumer",
    "transactional_writer": "TransactionalWriter",
    "writer": "Writer",
}
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
