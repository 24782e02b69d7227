"""Transactions (`TransactionShard`), as a pure state machine (KIP-98, 360, 890, 939).

The shard is imported when it is first needed, so that a broker without transactions starts sooner.
"""

from typing import TYPE_CHECKING

from .config import TransactionConfig
from .effects import (
    AddPartitions,
    Append,
    Ask,
    Command,
    Effect,
    EndTransaction,
    InitProducer,
    Now,
    Reply,
    SendMarkers,
    TransactionReply,
)
from .states import TopicPartition, TransactionEntry, TransactionState

if TYPE_CHECKING:
    from .shard import TransactionShard

__all__ = [
    "AddPartitions",
    "Append",
    "Ask",
    "Command",
    "Effect",
    "EndTransaction",
    "InitProducer",
    "Now",
    "Reply",
    "SendMarkers",
    "TopicPartition",
    "TransactionConfig",
    "TransactionEntry",
    "TransactionReply",
    "TransactionShard",
    "TransactionState",
]


def __getattr__(name: str) -> object:
    if name == "TransactionShard":
        from .shard import TransactionShard

        return TransactionShard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
