"""The blocking face: the same classes for programs without trio.

`AdminClient`, `Reader`, `Writer` and `TransactionalWriter` work on blocking sockets: no thread, no
trio. `Producer` and `Consumer` need work in the background and run the trio face in a thread of
their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka_client.sync.admin import AdminClient
    from minikafka_client.sync.consumer import Consumer
    from minikafka_client.sync.delivery import Delivery
    from minikafka_client.sync.producer import Producer
    from minikafka_client.sync.reader import Reader
    from minikafka_client.sync.transaction import Transaction
    from minikafka_client.sync.transactional_writer import TransactionalWriter
    from minikafka_client.sync.writer import Writer

__all__ = [
    "AdminClient",
    "Consumer",
    "Delivery",
    "Producer",
    "Reader",
    "Transaction",
    "TransactionalWriter",
    "Writer",
]

_HOME = {
    "AdminClient": "admin",
    "Consumer": "consumer",
    "Delivery": "delivery",
    "Producer": "producer",
    "Reader": "reader",
    "Transaction": "transaction",
    "TransactionalWriter": "transactional_writer",
    "Writer": "writer",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
